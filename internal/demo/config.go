package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"tollgate/internal/config"
)

//go:embed demo.yaml
var configText string

// HTTP is where the console and the metrics usually are.
const HTTP = "127.0.0.1:9464"

// Place is where a demonstration is: everything under a directory, an embedded NATS,
// and the console; without an address there is none.
type Place struct{ Dir, Listen, HTTP string }

// Config is a configuration that serves the tools at toolURL. The environment does not change it: what is
// tried out must not reach a real server.
func Config(at Place, toolURL string) (*config.Config, error) {
	text, err := YAML(at, toolURL)
	if err != nil {
		return nil, err
	}
	return config.Parse(filepath.Join(at.Dir, "demo.yaml"), text, func(name string) (string, bool) {
		if name == "TOLLGATE_LOG_LEVEL" || name == "TOLLGATE_LOG_FORMAT" {
			return os.LookupEnv(name)
		}
		return "", false
	})
}

// YAML is the text of that configuration, to be kept in the directory it is for.
func YAML(at Place, toolURL string) ([]byte, error) {
	t, err := template.New("demo.yaml").Parse(configText)
	if err != nil {
		return nil, fmt.Errorf("the demonstration's configuration: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct{ Listen, HTTP, Tools string }{at.Listen, at.HTTP, toolURL})
	return b.Bytes(), err
}
