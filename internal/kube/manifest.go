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

	"github.com/turnstone-run/turnstone/agent"
)

// The labels and annotations of Jobs and their inputs.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelComponent = "app.kubernetes.io/component"
	markTenant     = "turnstone.run/tenant" // label and annotation
	markTurn       = "turnstone.run/turn"   // label and annotation
	noteCall       = "turnstone.run/call"
	noteRequest    = "turnstone.run/request" // the digest of the request
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
	name, request string
	job, spec     object // spec is the Job's
	input, meta   object // the Secret, and its metadata
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
	m := &manifest{name: jobName(r.in.Tenant, r.in.Key), request: asked}
	marks := object{
		"labels": labels(&r.in),
		"annotations": object{
			markTenant: annotation(r.in.Tenant), markTurn: annotation(string(r.in.TurnID)), noteCall: annotation(r.in.Key), noteRequest: asked,
		},
	}
	m.meta = maps.Clone(marks)
	m.meta["name"], m.meta["namespace"] = m.name, c.cfg.Namespace
	seconds := int64(r.timeout / time.Second)
	m.input = object{
		"apiVersion": "v1", "kind": "Secret", "metadata": m.meta, "type": "Opaque", "immutable": true, "data": r.files,
	}
	m.spec = object{
		"suspend": true, "parallelism": 1, "completions": 1, "backoffLimit": containerRetries,
		"podReplacementPolicy":    "Failed", // never two at a time
		"activeDeadlineSeconds":   seconds + int64(podGrace/time.Second),
		"ttlSecondsAfterFinished": int64(c.cfg.TTL / time.Second),
		"template":                object{"metadata": marks, "spec": c.podSpec(r, m.name, seconds)},
	}
	m.job = object{"apiVersion": "batch/v1", "kind": "Job", "metadata": m.meta, "spec": m.spec}
	return m, nil
}

// ownedInput returns the input with the Job as its owner, so that it is deleted with the Job.
func (m *manifest) ownedInput(owner *job) object {
	meta := maps.Clone(m.meta)
	meta["ownerReferences"] = []object{{
		"apiVersion": "batch/v1", "kind": "Job", "name": m.name, "uid": owner.Metadata.UID, "controller": true, "blockOwnerDeletion": false,
	}}
	input := maps.Clone(m.input)
	input["metadata"] = meta
	return input
}

func (c *Cluster) podSpec(r *request, input string, seconds int64) object {
	var pullSecrets []object
	for _, name := range c.cfg.PullSecrets {
		pullSecrets = append(pullSecrets, object{"name": name})
	}
	spec := object{
		"restartPolicy": "Never", "activeDeadlineSeconds": seconds, "terminationGracePeriodSeconds": 5,
		"automountServiceAccountToken": false, "enableServiceLinks": false,
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": containerUser, "runAsGroup": containerUser, "fsGroup": containerUser,
			"seccompProfile": object{"type": "RuntimeDefault"},
		},
		"volumes": []object{
			{"name": "input", "secret": object{"secretName": input, "defaultMode": 0o440}},
			{"name": "tmp", "emptyDir": object{"sizeLimit": c.max.tmp.text}},
		},
		"containers": []object{c.container(r)},
	}
	if c.cfg.RuntimeClass != "" {
		spec["runtimeClassName"] = c.cfg.RuntimeClass
	}
	addList(spec, "imagePullSecrets", pullSecrets)
	return spec
}

func addList[T any](to object, name string, list []T) {
	if len(list) > 0 {
		to[name] = list
	}
}

func (c *Cluster) container(r *request) object {
	resources := object{"cpu": r.cpu.text, "memory": r.memory.text, "ephemeral-storage": c.max.storage.text}
	spec := object{
		"name": containerName, "image": r.image, "env": environment(r.in.Env),
		"resources":              object{"limits": resources, "requests": resources},
		"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
		"securityContext": object{
			"runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "privileged": false,
			"capabilities": object{"drop": []string{"ALL"}},
		},
		"volumeMounts": []object{
			{"name": "input", "mountPath": inputFolder, "readOnly": true},
			{"name": "tmp", "mountPath": tmpFolder},
		},
	}
	addList(spec, "command", escapeAll(r.command))
	addList(spec, "args", escapeAll(r.args))
	return spec
}

// environment returns the runtime's variables, then those that the model set, in a fixed order.
func environment(vars map[string]string) []object {
	variable := func(name, value string) object { return object{"name": name, "value": value} }
	env := []object{variable("HOME", tmpFolder), variable("TMPDIR", tmpFolder), variable(inputVar, inputFolder+"/"+inputFile)}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, variable(name, escape(vars[name])))
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
	labels := map[string]string{
		labelManagedBy: "turnstone", labelComponent: "container", markTenant: labelValue(in.Tenant), markTurn: labelValue(string(in.TurnID)),
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
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
