package dedupe

import (
	"time"

	"tollgate/schemas"
)

// Standing is what a call's dead letters need to know of its record: little enough
// to be read for a hundred thousand of them. The zero Standing is a call without a
// record.
type Standing struct {
	State      State               `json:"state"`
	Generation int                 `json:"generation"`
	Letter     schemas.LetterState `json:"letter,omitempty"`
	Note       string              `json:"note,omitempty"`
}

// Standing returns the record's. A nil record is a call without one.
func (r *Record) Standing() Standing {
	if r == nil {
		return Standing{}
	}
	return Standing{State: r.State, Generation: r.Generation, Letter: r.Letter, Note: r.Note}
}

// Remark is what an operator has noted about a group of dead letters.
type Remark struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Text string    `json:"text"`
}
