package kube

import (
	"cmp"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// DefaultInterpreter is the image that a [Renderer] without a configured interpreter names.
const DefaultInterpreter = "python:3.13-slim"

// Renderer writes the manifests of containers without a cluster to run them on.
type Renderer struct{ c *Cluster }

// NewRenderer returns a renderer. Its configuration needs no Client. Without Images any image may be named, because nothing runs.
func NewRenderer(cfg Config) (*Renderer, error) {
	cfg.Interpreter = cmp.Or(cfg.Interpreter, DefaultInterpreter)
	c, err := build(cfg)
	if err != nil {
		return nil, err
	}
	c.anyImage = len(cfg.Images) == 0
	return &Renderer{c: c}, nil
}

// Render is [Cluster.Render].
func (r *Renderer) Render(in agent.Container) (agent.ContainerManifest, error) { return r.c.Render(in) }

// Render returns what a call would create: a List of the Secret with its input and of the Job, which "kubectl create -f" takes. Nothing is
// sent to a cluster. It refuses what Run refuses, with the same errors.
func (c *Cluster) Render(in agent.Container) (agent.ContainerManifest, error) {
	req, err := c.request(in)
	if err != nil {
		return agent.ContainerManifest{}, err
	}
	made, err := c.manifest(req)
	if err != nil {
		return agent.ContainerManifest{}, err
	}
	delete(made.spec, "suspend") // its input is made first, so it need not wait
	manifest, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []object{made.input, made.job}})
	if err != nil {
		return agent.ContainerManifest{}, agent.Errorf(agent.CodeInternal, op, "encode manifest: %w", err)
	}
	return agent.ContainerManifest{Job: made.name, Manifest: manifest}, nil
}
