package http_test

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is for servers that are meant to see broken handshakes.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
