package demo

import (
	"strings"
	"testing"
)

func TestConfigIsAcceptedAndBuildable(t *testing.T) {
	c, err := Config(Place{Dir: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0"}, "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(Functions()); err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings: %v", w)
	}
	if !strings.Contains(configText, "EXAMPLE LIMITS") {
		t.Error("the policies are not marked as examples")
	}
}
