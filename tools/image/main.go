// Command image makes the container image of the worker from the binaries of a release, without a container engine. It writes an OCI layout for
// linux/amd64 and linux/arm64, and a tar file for docker load and podman load. The same binaries always have the same digest.
//
//	go -C tools/image run . -dist ../../dist                                      # on an empty base
//	go -C tools/image run . -dist ../../dist -base gcr.io/distroless/static-debian12:nonroot
//	go -C tools/image run . -dist ../../dist -push registry.example.com/turnstone/worker:v1.0.0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options are the flags of the command.
type options struct {
	dist, base, push string
	platforms        []string
}

func main() {
	var o options
	flag.StringVar(&o.dist, "dist", "dist", "folder with the binaries of a release; the image is written to it")
	flag.StringVar(&o.base, "base", "", "image to build on; empty: none, with certificate authorities and a user of our own")
	flag.StringVar(&o.push, "push", "", "where to push the image; empty: nowhere")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "what to build for")
	flag.Parse()
	o.platforms = strings.Split(*platforms, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run writes the image to dist/image and dist/image.tar, and pushes it if o.push is set.
func run(ctx context.Context, o options) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.platforms {
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			return fmt.Errorf("-platforms: %w", err)
		}
		image, err := build(ctx, o, p)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: p}})
	}
	folder := filepath.Join(o.dist, "image")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := written.AppendIndex(index); err != nil {
		return err
	}
	if err := writeTar(folder, folder+".tar"); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	if o.push == "" {
		return nil
	}
	to, err := name.ParseReference(o.push)
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	return remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// build makes the image of one platform.
func build(ctx context.Context, o options, p *v1.Platform) (v1.Image, error) {
	image, err := baseImage(ctx, o.base, p)
	if err != nil {
		return nil, err
	}
	worker := filepath.Join(o.dist, "worker_"+p.OS+"_"+p.Architecture)
	programs := []file{
		{path: "usr/local/bin/worker", source: worker, mode: 0o755},
		{path: "usr/local/bin/starter", source: filepath.Join(o.dist, "starter_"+p.OS+"_"+p.Architecture), mode: 0o755},
		{path: "var/lib/turnstone/", mode: 0o755, owner: user},
	}
	layer, err := newLayer(programs)
	if err != nil {
		return nil, err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	if err := configure(&config.Config, worker); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, config)
}

// baseImage returns the image to build on: an image in a registry, or one with the few files of an operating system that the worker needs.
func baseImage(ctx context.Context, base string, p *v1.Platform) (v1.Image, error) {
	if base != "" {
		ref, err := name.ParseReference(base)
		if err != nil {
			return nil, fmt.Errorf("-base: %w", err)
		}
		return remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(*p), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	authorities, err := certificates()
	if err != nil {
		return nil, err
	}
	layer, err := newLayer([]file{
		{path: "etc/passwd", text: []byte("nonroot:x:65532:65532:nonroot:/var/lib/turnstone:/sbin/nologin\n"), mode: 0o644},
		{path: "etc/group", text: []byte("nonroot:x:65532:\n"), mode: 0o644},
		{path: "etc/ssl/certs/ca-certificates.crt", text: authorities, mode: 0o644},
		{path: "tmp/", mode: 0o1777},
	})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.AppendLayers(image, layer)
}
