// Package dedupe is what the ledger remembers: who a call is (identity and
// argument fingerprint), the record of its life as a state machine, its carrier
// token and its fence, and the one mutation by which a record changes.
//
//	           claim                    settle: retry
//	(none) ───────────▶ in_flight ───────────────────────▶ waiting
//	                     ▲  │  │ └─ reconcile ─▶ reconciling   │
//	                     │  │  │                      │        │ settle
//	                     └──┼──┼── claim ◀────────────┼────────┤
//	                        │  └─ settle ─▶ done, dead, cancelled
//	                        └──────────────▶      (terminal)   │
//	                                  replay: waiting ◀────────┘
//
// Storage is in dedupe/bolt; decisions are in dispatcher/gate. Nothing here does
// I/O, reads a clock or decides what happens to a call.
package dedupe
