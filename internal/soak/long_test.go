//go:build soak

package soak

import (
	"testing"
	"time"
)

func TestSoakKilledThirtyTimesInThreeThousandCalls(t *testing.T) { soak(t, 3000, 30, 50*time.Minute) }
