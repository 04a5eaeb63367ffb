package kube

import (
	"errors"
	"strings"

	"github.com/distribution/reference"
)

// maxImage bounds the name of an image, in bytes.
const maxImage = 512

var (
	errImage     = errors.New("is no image such as registry.example.com/team/tool:1.2")
	errImageRule = errors.New("want registry/repo, registry/repo:tag, registry/repo@sha256:… or registry/team/*")
)

// parseImage reads an image's name as container runtimes do: "python" is docker.io/library/python.
func parseImage(text string) (reference.Named, error) {
	if len(text) > maxImage {
		return nil, errImage
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil, errImage
	}
	return named, nil
}

// imageRule allows images: of one repository, or with below of all whose names begin with it. A tag or digest that it has must be there.
type imageRule struct {
	repository  string
	below       bool
	tag, digest string
}

func parseImageRule(text string) (imageRule, error) {
	if prefix, ok := strings.CutSuffix(text, "/*"); ok {
		// A name below stands for them all, so that "registry:5000/*" and "*" are read as what they are.
		named, err := parseImage(prefix + "/x")
		if err != nil || !strings.HasSuffix(named.Name(), prefix+"/x") || !reference.IsNameOnly(named) {
			return imageRule{}, errImageRule
		}
		return imageRule{repository: strings.TrimSuffix(named.Name(), "x"), below: true}, nil
	}
	named, err := parseImage(text)
	if err != nil {
		return imageRule{}, errImageRule
	}
	tag, digest := versionOf(named)
	return imageRule{repository: named.Name(), tag: tag, digest: digest}, nil
}

// allows reports whether an image fits. A rule with a tag wants exactly that tag and no digest beside it: the digest would decide.
func (r imageRule) allows(image reference.Named) bool {
	tag, digest := versionOf(image)
	switch {
	case r.below:
		return strings.HasPrefix(image.Name(), r.repository)
	case r.repository != image.Name():
		return false
	case r.digest != "":
		return digest == r.digest
	case r.tag != "":
		return digest == "" && tag == r.tag
	default:
		return true
	}
}

func versionOf(named reference.Named) (tag, digest string) {
	if t, ok := named.(reference.Tagged); ok {
		tag = t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		digest = d.Digest().String()
	}
	return tag, digest
}
