package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// bom is a bill of materials in the format of CycloneDX. It has neither a time nor a serial number, so that it is always the same.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// writeSBOM writes the bill of materials of a binary: the modules that the toolchain recorded in it, and the standard library.
func writeSBOM(binary, to string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", binary, err)
	}
	program := module("application", &info.Main)
	program.Name = strings.SplitN(filepath.Base(binary), "_", 2)[0]
	sum, err := fileSHA256(binary)
	if err != nil {
		return err
	}
	program.Hashes = []hash{{"SHA-256", sum}}
	list := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{program}}
	std := &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	uses := dependency{Ref: program.Ref}
	for _, m := range append([]*debug.Module{std}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module("library", m)
		list.Components, uses.DependsOn = append(list.Components, c), append(uses.DependsOn, c.Ref)
	}
	list.Dependencies = []dependency{uses}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o644) //nolint:gosec // public
}

func module(kind string, m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return component{Ref: purl, Type: kind, Name: m.Path, Version: m.Version, PURL: purl}
}
