// Package soak kills the real program again and again under load, and checks from
// outside what came of it: the tools and their books live in the test's process,
// which is not killed.
//
// It holds tests only. `go test` kills five times in three hundred calls;
// `make soak` thirty times in three thousand.
package soak
