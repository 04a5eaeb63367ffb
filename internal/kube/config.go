package kube

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/turnstone-run/turnstone/agent"
)

// The defaults of a [Config].
const (
	DefaultCPU              = "1"
	DefaultMemory           = "512Mi"
	DefaultEphemeralStorage = "1Gi"
	DefaultTmp              = "256Mi"
	DefaultDeadline         = 7 * time.Minute // below the 8 minutes that a tool call may take
	DefaultTTL              = time.Hour
	DefaultPullPatience     = 2 * time.Minute
	DefaultUser             = 65532 // "nonroot" of the distroless images
	DefaultPollInterval     = 5 * time.Second
)

// MaxDeadline is the longest deadline: a tool call is cut off after 8 minutes.
const MaxDeadline = 7*time.Minute + 30*time.Second

// minTTL leaves the next attempt of a call the time to find a finished Job.
const (
	minTTL = time.Minute
	maxTTL = 30 * 24 * time.Hour
)

// Config says where containers run and what they may have. The resources are those of each container, and the most that a call can ask for.
type Config struct {
	Client    kubernetes.Interface
	Namespace string // default "default"
	// Images may be run: "registry/repo" (any tag), "registry/repo:tag", "registry/repo@sha256:…", "registry/team/*" (any repository
	// below). Names without a registry are Docker Hub's. The interpreter's image needs no entry.
	Images []string
	// Interpreter is the image that runs code. Empty: there is no code interpreter.
	Interpreter string
	// Languages are the commands that run code, by language; the path of the code's file is put behind. Empty: python with python3.
	Languages map[string][]string

	CPU              string // a quantity; default 1
	Memory           string // default 512Mi
	EphemeralStorage string // disk, logs and /tmp; default 1Gi
	Tmp              string // of /tmp alone; default 256Mi

	Deadline     time.Duration // of a run; default 7 min, at most [MaxDeadline]
	TTL          time.Duration // how long a finished Job is kept; default 1 h, 1 min to 30 days
	PullPatience time.Duration // how long an image may fail to be pulled; default 2 min
	PollInterval time.Duration // how often a Job is looked at without a watch's word; default 5 s

	User, Group    int64 // whom containers run as; default 65532, never 0
	Retries        int32 // how often Kubernetes starts a failed container again; default 0
	ServiceAccount string
	RuntimeClass   string            // e.g. gvisor
	NodeSelector   map[string]string // where pods go
	PullSecrets    []string          // of private registries, in the namespace
	Labels         map[string]string // put on all that is made

	Logger *zap.Logger // nil: nothing is logged
}

// ceilings are the resources of a container.
type ceilings struct {
	cpu, memory, storage, tmp resource.Quantity
}

// Cluster runs containers. It is safe for concurrent use.
type Cluster struct {
	cfg      Config
	max      ceilings
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
		to    *resource.Quantity
	}{
		{"cpu", cfg.CPU, &c.max.cpu},
		{"memory", cfg.Memory, &c.max.memory},
		{"ephemeral_storage", cfg.EphemeralStorage, &c.max.storage},
		{"tmp", cfg.Tmp, &c.max.tmp},
	} {
		v, err := quantity(q.field, q.text)
		if err != nil {
			return nil, err
		}
		*q.to = v
	}
	if c.max.tmp.Cmp(c.max.storage) > 0 {
		return nil, agent.Invalid("tmp", "%s is more than ephemeral_storage, %s", cfg.Tmp, cfg.EphemeralStorage)
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
	set(&c.Namespace, "default")
	set(&c.CPU, DefaultCPU)
	set(&c.Memory, DefaultMemory)
	set(&c.EphemeralStorage, DefaultEphemeralStorage)
	set(&c.Tmp, DefaultTmp)
	set(&c.Deadline, DefaultDeadline)
	set(&c.TTL, DefaultTTL)
	set(&c.PullPatience, DefaultPullPatience)
	set(&c.PollInterval, DefaultPollInterval)
	set(&c.User, DefaultUser)
	set(&c.Group, DefaultUser)
	set(&c.Logger, zap.NewNop())
	if len(c.Languages) == 0 {
		c.Languages = map[string][]string{"python": {"python3"}}
	}
}

func set[T comparable](to *T, fallback T) {
	var zero T
	if *to == zero {
		*to = fallback
	}
}

func (c *Config) check() error {
	switch {
	case len(validation.IsDNS1123Label(c.Namespace)) > 0:
		return agent.Invalid("namespace", "%.100q is no name of a namespace", c.Namespace)
	case c.Deadline < time.Second:
		return agent.Invalid("deadline", "want at least 1s")
	case c.Deadline > MaxDeadline:
		return agent.Invalid("deadline", "want at most %s: a tool call is cut off after 8 minutes", MaxDeadline)
	case c.TTL < minTTL:
		return agent.Invalid("ttl", "want at least %s: the next attempt of a call must find its Job", minTTL)
	case c.TTL > maxTTL:
		return agent.Invalid("ttl", "want at most %s", maxTTL)
	case c.PullPatience < 0:
		return agent.Invalid("pull_patience", "is negative")
	case c.PollInterval < 0:
		return agent.Invalid("poll_interval", "is negative")
	case c.User < 1:
		return agent.Invalid("user", "want a user that is not root")
	case c.Group < 1:
		return agent.Invalid("group", "want a group that is not root")
	case c.Retries < 0:
		return agent.Invalid("retries", "is negative")
	}
	if c.Interpreter != "" {
		if _, err := parseImage(c.Interpreter); err != nil {
			return agent.Invalid("interpreter", "%w", err)
		}
	}
	for _, language := range slices.Sorted(maps.Keys(c.Languages)) {
		if len(c.Languages[language]) == 0 {
			return agent.Invalid("languages."+language, "has no command")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if len(validation.IsQualifiedName(name)) > 0 || len(validation.IsValidLabelValue(c.Labels[name])) > 0 {
			return agent.Invalid("labels."+name, "%.100q is no label", c.Labels[name])
		}
	}
	return nil
}

// quantity reads an amount that is more than nothing.
func quantity(field, text string) (resource.Quantity, error) {
	if len(text) > 32 {
		return resource.Quantity{}, agent.Invalid(field, "is no quantity such as 500m or 256Mi")
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return q, agent.Invalid(field, "%q is no quantity such as 500m or 256Mi", text)
	case q.Sign() <= 0:
		return q, agent.Invalid(field, "%s: want more than 0", text)
	}
	return q, nil
}
