//go:build !unix

package bolt

import "errors"

// sameAccess refuses: a file that is open cannot be replaced here.
func sameAccess(string, string) error { return errors.ErrUnsupported }
