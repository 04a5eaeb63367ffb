package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/turnstone-run/turnstone/agent"
)

// The labels and annotations of Jobs and their inputs.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelComponent = "app.kubernetes.io/component"
	labelTenant    = "turnstone.run/tenant"
	labelTurn      = "turnstone.run/turn"

	noteTenant  = "turnstone.run/tenant"
	noteTurn    = "turnstone.run/turn"
	noteCall    = "turnstone.run/call"
	noteRequest = "turnstone.run/request" // the digest of the request
)

// Where a container finds its input.
const (
	containerName = "agent"
	inputFolder   = "/turnstone"
	inputFile     = "input.json"
	codeFile      = "code"
	inputVar      = "TURNSTONE_INPUT"
	tmpFolder     = "/tmp"
)

// podGrace is how much longer a Job may take than its pod. A Job over its deadline deletes the pod and its logs.
const podGrace = 15 * time.Second

// manifest holds the objects of a call.
type manifest struct {
	job   *batchv1.Job
	input *corev1.Secret // its owner is set once the Job has a UID
}

// jobName returns the name of a call's Job. It fits a label, and does not show the tenant.
func jobName(tenant, key string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + key))
	return "turnstone-" + hex.EncodeToString(sum[:16])
}

// manifest returns the suspended Job of a request, and its input.
func (c *Cluster) manifest(r *request) (*manifest, error) {
	asked, err := r.digest()
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{
		Name: jobName(r.in.Tenant, r.in.Key), Namespace: c.cfg.Namespace, Labels: labels(&r.in),
		Annotations: map[string]string{
			noteTenant: annotation(r.in.Tenant), noteTurn: annotation(string(r.in.TurnID)), noteCall: annotation(r.in.Key), noteRequest: asked,
		},
	}
	seconds := int64(r.timeout / time.Second)
	return &manifest{
		input: &corev1.Secret{
			ObjectMeta: meta, Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: r.files,
		},
		job: &batchv1.Job{
			ObjectMeta: *meta.DeepCopy(),
			Spec: batchv1.JobSpec{
				Suspend: new(true), Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(containerRetries)),
				PodReplacementPolicy:    new(batchv1.Failed), // never two at a time
				ActiveDeadlineSeconds:   new(seconds + int64(podGrace/time.Second)),
				TTLSecondsAfterFinished: new(int32(c.cfg.TTL / time.Second)), //nolint:gosec // at most 30 days
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(meta.Labels), Annotations: maps.Clone(meta.Annotations)},
					Spec:       c.pod(r, meta.Name, seconds),
				},
			},
		},
	}, nil
}

func (c *Cluster) pod(r *request, input string, seconds int64) corev1.PodSpec {
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(seconds), TerminationGracePeriodSeconds: new(int64(5)),
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(containerUser)), RunAsGroup: new(int64(containerUser)), FSGroup: new(int64(containerUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{
			{Name: "input", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: input, DefaultMode: new(int32(0o440))}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(c.max.tmp.DeepCopy())}}},
		},
		Containers: []corev1.Container{c.container(r)},
	}
	if c.cfg.RuntimeClass != "" {
		pod.RuntimeClassName = new(c.cfg.RuntimeClass)
	}
	for _, name := range c.cfg.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

func (c *Cluster) container(r *request) corev1.Container {
	has := corev1.ResourceList{
		corev1.ResourceCPU: r.cpu.DeepCopy(), corev1.ResourceMemory: r.memory.DeepCopy(), corev1.ResourceEphemeralStorage: c.max.storage.DeepCopy(),
	}
	return corev1.Container{
		Name: containerName, Image: r.image, Command: escapeAll(r.command), Args: escapeAll(r.args), Env: environment(r.in.Env),
		Resources:                corev1.ResourceRequirements{Limits: has, Requests: has.DeepCopy()},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false), Privileged: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "input", MountPath: inputFolder, ReadOnly: true},
			{Name: "tmp", MountPath: tmpFolder},
		},
	}
}

// environment returns the runtime's variables, then those that the model set, in a fixed order.
func environment(vars map[string]string) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "HOME", Value: tmpFolder}, {Name: "TMPDIR", Value: tmpFolder}, {Name: inputVar, Value: inputFolder + "/" + inputFile},
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, corev1.EnvVar{Name: name, Value: escape(vars[name])})
	}
	return env
}

// escape keeps Kubernetes from replacing $(NAME) by the value of a variable.
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func escapeAll(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, escape(w))
	}
	return out
}

func labels(in *agent.Container) map[string]string {
	labels := map[string]string{labelManagedBy: "turnstone", labelComponent: "container"}
	for name, value := range map[string]string{labelTenant: in.Tenant, labelTurn: string(in.TurnID)} {
		if text := labelValue(value); text != "" {
			labels[name] = text
		}
	}
	return labels
}

const (
	maxLabel = 63  // of Kubernetes
	maxNote  = 256 // of an annotation, in bytes
)

// labelValue makes the value of a label from any text: other characters become a dash.
func labelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		default:
			return '-'
		}
	}, s)
	if len(s) > maxLabel {
		s = s[:maxLabel]
	}
	return strings.Trim(s, "-_.")
}

func annotation(s string) string {
	if len(s) > maxNote {
		s = s[:maxNote]
	}
	return strings.ToValidUTF8(s, "")
}

// digest identifies what was asked for, without the configuration, which may have changed since.
func (r *request) digest() (string, error) {
	in := r.in
	text, err := json.Marshal([]any{in.Image, in.Language, in.Code, string(in.Input), in.Command, in.Args, in.Env, in.CPU, in.Memory, in.Timeout})
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, op, "encode request: %w", err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text)), nil
}

// requestedQuantity returns the quantity that a call asks for, or the maximum if it asks for none.
func requestedQuantity(field, text string, maximum resource.Quantity) (resource.Quantity, error) {
	if text == "" {
		return maximum, nil
	}
	q, err := quantity(field, text)
	if err != nil {
		return q, err
	}
	if q.Cmp(maximum) > 0 {
		return q, agent.FieldErrorf(agent.CodeDenied, field, "%s: at most %s", text, maximum.String())
	}
	return q, nil
}
