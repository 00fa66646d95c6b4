// Package contract holds the executor contract of DESIGN section 13: every test for
// every executor, through the whole system, on real sockets, files and processes, in
// real time and with timestamps asserted. Tests in virtual time are in internal/e2e.
package contract
