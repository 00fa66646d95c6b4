// Package archtest keeps the shape of the code as it was decided: who may import
// whom, which packages stay pure, where NATS and bbolt may be seen, and how long a
// file or a function may get.
//
// It holds tests only. A row is changed by a decision about the design, never to
// make a build pass.
package archtest
