// Package schemas is the wire contract, version 1: header names, subjects, the
// request an agent publishes, the outcome it gets back, the tool error body and
// the dead letter, together with the JSON Schemas that describe them.
//
// Everything here is a value or a parser of bytes. Nothing here knows a clock, a
// connection, a file or a policy; no decision about a call is taken here.
package schemas
