// Command release builds the files of a release in dist/: static binaries of turnstone, worker and starter for each platform, a bill of materials
// (CycloneDX) of each binary, the Dockerfile, and the checksums of all. The same commit always has the same files.
//
//	go run ./tools/release                          # all platforms
//	go run ./tools/release -platforms linux/amd64   # one platform
//	go run ./tools/release -programs worker,starter # the programs of the image
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the names of the binaries with their packages.
//
//nolint:gochecknoglobals // a constant in all but syntax
var programs = [][2]string{{"turnstone", "./cmd/turnstone"}, {"worker", "./worker"}, {"starter", "./starter"}}

func main() {
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for")
	names := flag.String("programs", "turnstone,worker,starter", "what to build")
	dist := flag.String("dist", "dist", "folder for the files; what is in it goes")
	flag.Parse()
	if err := release(*dist, strings.Split(*platforms, ","), strings.Split(*names, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func release(dist string, platforms, names []string) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil { //nolint:gosec // public
		return err
	}
	for _, platform := range platforms {
		system, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("-platforms: %q is none, want one such as linux/amd64", platform)
		}
		for _, p := range programs {
			if !slices.Contains(names, p[0]) {
				continue
			}
			file := filepath.Join(dist, strings.Join([]string{p[0], system, arch}, "_"))
			if err := build(file, p[1], system, arch); err != nil {
				return err
			}
			if err := writeSBOM(file, file+".cdx.json"); err != nil {
				return err
			}
		}
	}
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dist, "Dockerfile"), text, 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	return writeSums(dist)
}

// build builds a stripped static binary. The toolchain records the version: the tag of the commit, or a pseudo-version.
func build(file, pkg, system, arch string) error {
	fmt.Println("building", file)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", file, pkg) //nolint:gosec,noctx // no user input; Ctrl-C ends both
	// The settings of this machine must not change the result.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w", pkg, system, arch, err)
	}
	return nil
}

// writeSums writes the file SHA256SUMS for sha256sum -c.
func writeSums(dist string) error {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		sum, err := fileSHA256(filepath.Join(dist, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	text := strings.Join(lines, "")
	fmt.Print(text)
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(text), 0o644) //nolint:gosec // public
}

func fileSHA256(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read-only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
