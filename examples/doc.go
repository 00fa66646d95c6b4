// Package examples holds programs to start from: an agent in Node with a plain NATS
// client, an agent with the Go SDK, and an HTTP tool that honours the idempotency key.
//
// There is nothing to import. Its tests run every example against a real Tollgate.
package examples
