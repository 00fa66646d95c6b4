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

// Config is a configuration that serves the tools at toolURL: an embedded NATS on
// listen, and everything under dir. The environment does not change it: what is
// tried out must not reach a real server.
func Config(dir, listen, toolURL string) (*config.Config, error) {
	text, err := YAML(listen, toolURL)
	if err != nil {
		return nil, err
	}
	return config.Parse(filepath.Join(dir, "demo.yaml"), text, func(name string) (string, bool) {
		if name == "TOLLGATE_LOG_LEVEL" || name == "TOLLGATE_LOG_FORMAT" {
			return os.LookupEnv(name)
		}
		return "", false
	})
}

// YAML is the text of that configuration, to be kept in the directory it is for.
func YAML(listen, toolURL string) ([]byte, error) {
	t, err := template.New("demo.yaml").Parse(configText)
	if err != nil {
		return nil, fmt.Errorf("the demonstration's configuration: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct{ Listen, Tools string }{listen, toolURL})
	return b.Bytes(), err
}
