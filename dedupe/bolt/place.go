package bolt

import (
	"go.etcd.io/bbolt"

	"tollgate/dedupe"
)

// place is where the file holds a record. Only what changes soon is kept by the
// call's ID, in a bucket that stays small: in a big one each ID is a page of its own.
// The others are appended, and memory knows their numbers.
type place uint8

const (
	nowhere    place = iota
	inHot            // running, or something of it is not published: by call
	inWaiting        // parked until it is due: appended
	inTerminal       // an answer: appended
)

func placeOf(r *dedupe.Record) place {
	switch {
	case settled(r):
		return inTerminal
	case parks(r):
		return inWaiting
	}
	return inHot
}

// places are the buckets of all places.
type places [inTerminal + 1]*bbolt.Bucket

func openPlaces(tx *bbolt.Tx) (p places, err error) {
	for i, name := range [...][]byte{inHot: bucketHot, inWaiting: bucketWaiting, inTerminal: bucketTerminal} {
		if place(i) == nowhere {
			continue
		}
		if p[i], err = bucket(tx, name); err != nil {
			return p, err
		}
	}
	return p, nil
}

// write moves a record to where it belongs now. What is appended never changes in
// place.
func (s *staged) write(p places) error {
	to := placeOf(s.record)
	switch {
	case s.in == inHot && to != inHot:
		if err := p[inHot].Delete([]byte(s.record.Call)); err != nil {
			return err
		}
	case s.in == inWaiting || s.in == inTerminal:
		if err := p[s.in].Delete(key(s.seq)); err != nil {
			return err
		}
	}
	if to == inHot {
		return p[to].Put([]byte(s.record.Call), s.value)
	}
	var err error
	if s.newSeq, err = p[to].NextSequence(); err != nil {
		return err
	}
	return p[to].Put(key(s.newSeq), s.value)
}
