//go:build !linux

package exec

import "context"

// Reap has nothing to do where exec tools do not run.
func Reap(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
