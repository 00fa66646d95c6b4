// Package e2e holds the tests that need everything: the invariants of DESIGN
// section 12 and the executor contract of section 13, on the real server, the real
// ledger file and real tools. Those in virtual time say so with natstest.Bubble.
package e2e
