//go:build !linux

package bench

import "os"

// dropCache does nothing: a start from the disk is then one from the cache.
func dropCache(*os.File) error { return nil }
