// Package matrix is the crash matrix: every story of a call's life, told once for
// every operation at which it can be disturbed. A run of the matrix is one story
// with one fault at the n-th commit, publish, acknowledgement, tool call or firing
// of a retry, in virtual time; n rises until a run ends in which the fault never
// came, so that every n was one. After each run the promises are checked from outside.
//
// It holds tests only. A single scenario with its own timing belongs to internal/e2e;
// what is drawn at random, or takes real time, to internal/soak.
package matrix
