package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log" //nolint:depguard // the registry takes this one
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

var platforms = []string{"linux/amd64", "linux/arm64"}

// dist creates a folder with small programs in place of the worker and the starter of a release.
func dist(t *testing.T) string {
	t.Helper()
	folder, source := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n", "main.go": "package main\n\nimport (\n\t\"os\"\n)\n\nfunc main() { os.Stdout.WriteString(os.Args[0] + \" \" + os.Args[1]) }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(source, file), []byte(text), 0o600))
	}
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "/")
		for _, program := range []string{"worker", "starter"} {
			cmd := exec.CommandContext(t.Context(), "go", "build", "-C", source, "-o", filepath.Join(folder, strings.Join([]string{program, system, arch}, "_")), ".")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=-buildvcs=false")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	return folder
}

// images returns the digest of the index in a layout, and the images by platform.
func images(t *testing.T, folder string) (string, map[string]v1.Image) {
	t.Helper()
	top, err := layout.ImageIndexFromPath(filepath.Join(folder, "image"))
	require.NoError(t, err)
	manifest, err := top.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	digest := manifest.Manifests[0].Digest
	index, err := top.ImageIndex(digest)
	require.NoError(t, err)
	inner, err := index.IndexManifest()
	require.NoError(t, err)
	all := map[string]v1.Image{}
	for _, m := range inner.Manifests {
		all[m.Platform.String()], err = index.Image(m.Digest)
		require.NoError(t, err)
	}
	return digest.String(), all
}

// unpack writes the file system of an image to a folder, and returns the headers of its files.
func unpack(t *testing.T, image v1.Image) (string, map[string]*tar.Header) {
	t.Helper()
	root, headers := t.TempDir(), map[string]*tar.Header{}
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root, headers
		}
		require.NoError(t, err)
		headers[strings.Trim(h.Name, "/")] = h
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, h.FileInfo().Mode()))
	}
}

func TestImage(t *testing.T) {
	folder := dist(t)
	build := func() string {
		require.NoError(t, run(t.Context(), options{dist: folder, platforms: platforms}))
		digest, _ := images(t, folder)
		return digest
	}
	first := build()
	tarFile, err := os.ReadFile(filepath.Join(folder, "image.tar"))
	require.NoError(t, err)
	require.Equal(t, first, build(), "the same binaries, the same digest")
	again, err := os.ReadFile(filepath.Join(folder, "image.tar"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(tarFile, again), "the same tar file")

	_, all := images(t, folder)
	require.Len(t, all, len(platforms))
	for platform, image := range all {
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, platform, config.OS+"/"+config.Architecture)
		root, headers := unpack(t, image)
		require.Equal(t, 65532, headers["var/lib/turnstone"].Uid)
		require.EqualValues(t, 0o1777, headers["tmp"].Mode)
		text, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
		require.NoError(t, err)
		require.True(t, x509.NewCertPool().AppendCertsFromPEM(text))
		if config.Architecture != runtime.GOARCH || runtime.GOOS != "linux" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, config.Config.Entrypoint[0]), "version").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "worker version")
	}
}

// The image has the settings of the Dockerfile, which has each on a line.
func TestImageIsThatOfTheDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	folder := dist(t)
	require.NoError(t, run(t.Context(), options{dist: folder, platforms: platforms[:1]}))
	_, all := images(t, folder)
	file, err := all[platforms[0]].ConfigFile()
	require.NoError(t, err)
	c := file.Config
	for _, want := range []string{
		"USER " + c.User, "ENV " + c.Env[len(c.Env)-1], "WORKDIR " + c.WorkingDir, "EXPOSE 8080 9090", `ENTRYPOINT ["` + c.Entrypoint[0] + `"]`, "VOLUME /var/lib/turnstone",
		"HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD [\"" + strings.Join(c.Healthcheck.Test[1:], `", "`) + `"]`,
	} {
		require.Contains(t, string(text), "\n"+want+"\n")
	}
	require.Contains(t, c.ExposedPorts, "8080")
	require.Contains(t, c.ExposedPorts, "9090")
	require.Contains(t, c.Volumes, "/var/lib/turnstone")
}

// TestBaseAndPush builds an image on another one and pushes it to a registry in this process.
func TestBaseAndPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	folder := dist(t)
	base, to := host+"/base:1", host+"/turnstone/worker:v1"
	require.NoError(t, run(t.Context(), options{dist: folder, platforms: platforms, push: base}))
	_, below := images(t, folder)
	layers := map[string]int{}
	for platform, image := range below {
		all, err := image.Layers()
		require.NoError(t, err)
		layers[platform] = len(all)
	}
	require.NoError(t, run(t.Context(), options{dist: folder, platforms: platforms, base: base, push: to}))
	digest, all := images(t, folder)

	ref, err := name.ParseReference(to)
	require.NoError(t, err)
	pushed, err := remote.Index(ref, remote.WithContext(t.Context()))
	require.NoError(t, err)
	got, err := pushed.Digest()
	require.NoError(t, err)
	require.Equal(t, digest, got.String())
	for platform, image := range all {
		own, err := image.Layers()
		require.NoError(t, err)
		require.Len(t, own, layers[platform]+1, platform)
	}
}
