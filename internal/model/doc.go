// Package model runs random sequences of what agents, operators and bad luck do
// against a whole Tollgate, and holds what can be seen from outside against a small
// model of it: publishes, resends, failures, waits, crashes, restarts, cancellations,
// grants, replays and verdicts on dead letters, on the real server in virtual time.
//
// The model is written from the contract (the tables of docs/ARCHITECTURE.md and the
// invariants I1 to I14), never from the code: it imports nothing that decides. It is
// given what the tools saw and what the agents were told, in order, and says whether
// that may be. What a jittered delay leaves open stays open in it; the rest is exact.
//
// A sequence is drawn as data (plan), so that rapid can shrink it and a failure
// prints all of it. `-rapid.seed=N` repeats one, `-rapid.checks=N` sets how many.
package model
