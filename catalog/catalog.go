// Package catalog holds the documents that are shipped with the product, as one would write them oneself.
package catalog

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/turnstone-run/turnstone/agent"
)

//go:embed nodes agents routes models
var files embed.FS

// Files returns the shipped documents.
func Files() ([]agent.ManifestFile, error) {
	var out []agent.ManifestFile
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		out = append(out, agent.ManifestFile{Name: "catalog/" + path, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read shipped catalog: %w", err)
	}
	return out, nil
}
