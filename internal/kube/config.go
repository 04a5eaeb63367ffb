package kube

import (
	"cmp"
	"regexp"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// What every container has.
const (
	tmpSize          = "256Mi" // of /tmp
	containerUser    = 65532   // user and group "nonroot" of the distroless images
	containerRetries = 0       // how often Kubernetes starts a failed container again
)

// The code interpreter runs one language.
const (
	interpreterLanguage = "python"
	interpreterCommand  = "python3"
)

// MaxDeadline is the longest deadline: a tool call is cut off after 8 minutes.
const MaxDeadline = 7*time.Minute + 30*time.Second

// minTTL gives the next attempt of a call the time to find a finished Job.
const (
	minTTL = time.Minute
	maxTTL = 30 * 24 * time.Hour
)

// Config says where containers run and what they may have. The resources are those of each container, and the maximum that a call can ask
// for.
type Config struct {
	Client    *Client
	Namespace string // default "default"
	// Images may be run: "registry/repo" (any tag), "registry/repo:tag", "registry/repo@sha256:…", "registry/team/*" (any repository
	// below). Names without a registry are Docker Hub's. The interpreter's image needs no entry.
	Images []string
	// Interpreter is the image that runs Python code. Empty: there is no code interpreter.
	Interpreter string

	CPU              string // a quantity; default 1
	Memory           string // default 512Mi
	EphemeralStorage string // disk, logs and /tmp; default 1Gi

	Deadline     time.Duration // of a run; default 7 min, which is below the 8 minutes of a tool call; at most [MaxDeadline]
	TTL          time.Duration // how long a finished Job is kept; default 1 h, 1 min to 30 days
	PullPatience time.Duration // how long an image may fail to be pulled; default 2 min
	PollInterval time.Duration // how often a Job and its pods are read; default 2 s

	RuntimeClass string   // e.g. gvisor
	PullSecrets  []string // of private registries, in the namespace

	Logger *zap.Logger // nil: nothing is logged
}

// resources are the resources of a container.
type resources struct {
	cpu, memory, storage, tmp quantity
}

// Cluster runs containers. It is safe for concurrent use.
type Cluster struct {
	cfg      Config
	max      resources
	images   []imageRule
	anyImage bool // nothing runs, so no image need be allowed
}

// New checks the configuration. Its error is [agent.CodeInvalid] and names the field.
func New(cfg Config) (*Cluster, error) {
	if cfg.Client == nil {
		return nil, agent.Invalid("client", "is required")
	}
	return build(cfg)
}

func build(cfg Config) (*Cluster, error) {
	cfg.defaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg}
	for _, q := range []struct {
		field string
		text  string
		to    *quantity
	}{
		{"cpu", cfg.CPU, &c.max.cpu},
		{"memory", cfg.Memory, &c.max.memory},
		{"ephemeral_storage", cfg.EphemeralStorage, &c.max.storage},
		{"tmp", tmpSize, &c.max.tmp},
	} {
		v, err := parseQuantity(q.field, q.text)
		if err != nil {
			return nil, err
		}
		*q.to = v
	}
	if c.max.tmp.amount.Cmp(c.max.storage.amount) > 0 {
		return nil, agent.Invalid("tmp", "%s is more than ephemeral_storage, %s", tmpSize, cfg.EphemeralStorage)
	}
	for i, text := range cfg.Images {
		rule, err := parseImageRule(text)
		if err != nil {
			return nil, agent.Invalid("images["+strconv.Itoa(i)+"]", "%w", err)
		}
		c.images = append(c.images, rule)
	}
	return c, nil
}

func (c *Config) defaults() {
	c.Namespace = cmp.Or(c.Namespace, "default")
	c.CPU = cmp.Or(c.CPU, "1")
	c.Memory = cmp.Or(c.Memory, "512Mi")
	c.EphemeralStorage = cmp.Or(c.EphemeralStorage, "1Gi")
	c.Deadline = cmp.Or(c.Deadline, 7*time.Minute)
	c.TTL = cmp.Or(c.TTL, time.Hour)
	c.PullPatience = cmp.Or(c.PullPatience, 2*time.Minute)
	c.PollInterval = cmp.Or(c.PollInterval, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
}

var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (c *Config) check() error {
	switch {
	case !namespacePattern.MatchString(c.Namespace):
		return agent.Invalid("namespace", "%.100q is no name of a namespace", c.Namespace)
	case c.Deadline < time.Second:
		return agent.Invalid("deadline", "want at least 1s")
	case c.Deadline > MaxDeadline:
		return agent.Invalid("deadline", "want at most %s: a tool call is cut off after 8 minutes", MaxDeadline)
	case c.TTL < minTTL:
		return agent.Invalid("ttl", "want at least %s: the next attempt of a call must find its Job", minTTL)
	case c.TTL > maxTTL:
		return agent.Invalid("ttl", "want at most %s", maxTTL)
	}
	if c.Interpreter != "" {
		if _, err := parseImage(c.Interpreter); err != nil {
			return agent.Invalid("interpreter", "%w", err)
		}
	}
	return nil
}
