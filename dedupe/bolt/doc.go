// Package bolt is the ledger on one bbolt file: one process, one writer.
//
// Every change goes through one writer goroutine. It takes everything that is
// queued, runs the mutations one after another on a staged overlay, commits all of
// it in one transaction, merges the overlay into memory, and only then answers.
//
//	meta      format, id, epoch, horizon, pause/<tool>
//	hot       call ID → record: live records, and every record with an open slot
//	terminal  sequence → record: everything else, appended, expired from the low end
//	out       number → result or audit entry that is not published yet
//	runs      <tenant>/<root> → run
//
// Random keys in one big bucket slow a B+ tree down as it grows, so terminal
// records are appended and found through an index in memory.
//
// The package decides nothing about a call: the mutation does. It knows no NATS.
package bolt
