package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/turnstone-run/turnstone/internal/app"
)

const (
	chart = "helm/turnstone"
	// needed has the values without a default.
	needed = `
image: {repository: registry.example.com/turnstone/worker, tag: 1.0.0}
temporal: {address: "temporal-frontend.temporal:7233"}
storage: {blobUrl: "s3://turnstone?region=eu-central-1"}
`
)

// serviceMonitor has the fields of the Prometheus operator's ServiceMonitor that the chart sets. The operator's module is not a dependency.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		JobLabel  string               `json:"jobLabel"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Authorization *struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// release has the objects that the chart renders for a file of values.
type release struct {
	deployments []*appsv1.Deployment
	jobs        []*batchv1.Job
	services    []*corev1.Service
	configs     []*corev1.ConfigMap
	accounts    []*corev1.ServiceAccount
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	budgets     []*policyv1.PodDisruptionBudget
	policies    []*networkingv1.NetworkPolicy
	monitors    []*serviceMonitor
	notes       string
}

// add decodes a manifest into its Kubernetes type. Unknown and duplicate fields fail the test.
func (r *release) add(t *testing.T, manifest string) metav1.Object {
	t.Helper()
	if strings.Contains(manifest, "kind: ServiceMonitor\n") {
		m := &serviceMonitor{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), m), manifest)
		r.monitors = append(r.monitors, m)
		return m
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode([]byte(manifest), nil, nil)
	require.NoError(t, err, manifest)
	switch o := object.(type) {
	case *appsv1.Deployment:
		r.deployments = append(r.deployments, o)
	case *batchv1.Job:
		r.jobs = append(r.jobs, o)
	case *corev1.Service:
		r.services = append(r.services, o)
	case *corev1.ConfigMap:
		r.configs = append(r.configs, o)
	case *corev1.ServiceAccount:
		r.accounts = append(r.accounts, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		r.scalers = append(r.scalers, o)
	case *policyv1.PodDisruptionBudget:
		r.budgets = append(r.budgets, o)
	case *networkingv1.NetworkPolicy:
		r.policies = append(r.policies, o)
	default:
		t.Fatalf("the chart is not meant to have a %T", o)
	}
	return object.(metav1.Object)
}

// helm builds tools/helm and returns a function that lints and renders the chart with the values needed and others.
func helm(t *testing.T) func(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "helm")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../tools/helm", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return func(t *testing.T, values string) (map[string]string, error) {
		t.Helper()
		merged := map[string]any{}
		require.NoError(t, yaml.Unmarshal([]byte(needed), &merged))
		require.NoError(t, yaml.Unmarshal([]byte(values), &merged))
		text, err := yaml.Marshal(merged)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		out, err := exec.CommandContext(t.Context(), binary, chart, file).Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, errors.New(string(failed.Stderr))
		}
		require.NoError(t, err)
		var rendered map[string]string
		require.NoError(t, json.Unmarshal(out, &rendered))
		return rendered, nil
	}
}

// readRelease decodes the rendered templates. Two objects of the same kind must have different names.
func readRelease(t *testing.T, rendered map[string]string) *release {
	t.Helper()
	r, seen := &release{}, map[string]bool{}
	for name, text := range rendered {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = text
			continue
		}
		for manifest := range strings.SplitSeq("\n"+text, "\n---\n") {
			if !strings.Contains(manifest, "kind:") {
				continue
			}
			o := r.add(t, manifest)
			key := fmt.Sprintf("%T %s", o, o.GetName())
			require.False(t, seen[key], "%s stands twice", key)
			seen[key] = true
		}
	}
	slices.SortFunc(r.deployments, func(a, b *appsv1.Deployment) int { return strings.Compare(b.Name, a.Name) }) // the worker first
	return r
}

func TestChart(t *testing.T) {
	render := helm(t)
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		values string
		check  func(t *testing.T, r *release)
	}{
		"required values": {"", func(t *testing.T, r *release) {
			require.Len(t, r.deployments, 1)
			require.Len(t, r.jobs, 1)
			require.Len(t, r.budgets, 1)
			require.Empty(t, slices.Concat(r.configs))
			require.Empty(t, r.scalers)
			require.EqualValues(t, 2, *r.deployments[0].Spec.Replicas)
			require.Equal(t, "registry.example.com/turnstone/worker:1.0.0", r.deployments[0].Spec.Template.Spec.Containers[0].Image)
			require.NotContains(t, r.notes, "is empty")
		}},
		"everything": {`
image: {repository: registry.example.com/turnstone/worker, tag: 1.0.0, digest: "` + digest + `"}
imagePullSecrets: [registry]
secrets: [turnstone, models]
database: {url: "postgres://turnstone@postgres.example.com:5432/turnstone"}
redis: {url: "redis://redis.example.com:6379/0"}
env: {TURNSTONE_AUTH_KEYS: "true", TURNSTONE_LOG_LEVEL: debug}
config: {models: [{name: fast, provider: openai, model: gpt-4o-mini}]}
worker: {autoscaling: {enabled: true}}
gateway: {enabled: true, autoscaling: {enabled: true}}
serviceMonitor: {enabled: true, keySecret: {name: prometheus, key: key}}
networkPolicy: {enabled: true, clients: [{namespaceSelector: {}}], egress: [{ports: [{port: 5432}]}]}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/turnstone"}}
podAnnotations: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
`, func(t *testing.T, r *release) {
			require.Len(t, r.deployments, 2)
			require.Len(t, r.scalers, 2)
			require.Len(t, r.budgets, 2)
			require.Equal(t, "registry.example.com/turnstone/worker@"+digest, r.jobs[0].Spec.Template.Spec.Containers[0].Image)
			require.Nil(t, r.deployments[0].Spec.Replicas, "the autoscaler decides")
			require.Len(t, r.monitors, 1)
			require.Equal(t, "prometheus", r.monitors[0].Spec.Endpoints[0].Authorization.Credentials.Name)
			require.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, r.policies[0].Spec.PolicyTypes)
		}},
		"without optional objects": {`
migration: {enabled: false}
disruptionBudget: {enabled: false}
serviceAccount: {create: false}
topologySpread: false
networkPolicy: {enabled: true}
secrets: []
storage: {blobUrl: ""}
`, func(t *testing.T, r *release) {
			require.Empty(t, r.jobs)
			require.Empty(t, r.budgets)
			require.Empty(t, r.accounts)
			require.Equal(t, "default", r.deployments[0].Spec.Template.Spec.ServiceAccountName)
			require.Equal(t, []networkingv1.PolicyType{"Ingress"}, r.policies[0].Spec.PolicyTypes)
			require.Contains(t, r.notes, "storage.blobUrl is empty")
			require.Contains(t, r.notes, "No Secret is named")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := render(t, c.values)
			require.NoError(t, err)
			r := readRelease(t, rendered)
			r.checkPods(t)
			r.checkSelectors(t)
			r.checkScaling(t)
			r.checkNetwork(t)
			c.check(t, r)
		})
	}
	for name, c := range map[string]struct{ values, want string }{
		"no image":               {`image: {repository: ""}`, "/image/repository"},
		"a tag or a digest":      {`image: {repository: x, tag: ""}`, "/image"},
		"a short digest":         {`image: {repository: x, digest: "sha256:abc"}`, "/image/digest"},
		"no Temporal":            {`temporal: {address: ""}`, "/temporal/address"},
		"a key as a value":       {`env: {OPENAI_API_KEY: sk-1}`, "invalid propertyName 'OPENAI_API_KEY'"},
		"a password in a URL":    {`database: {url: "postgres://turnstone:secret@db/turnstone"}`, "/database/url"},
		"a password for Redis":   {`redis: {url: "redis://:secret@redis:6379"}`, "/redis/url"},
		"an unknown value":       {`replicas: 3`, "replicas"},
		"slots for the gateway":  {`gateway: {autoscaling: {slots: 3}}`, "/gateway/autoscaling"},
		"a variable as a number": {`env: {TURNSTONE_TURN_DIRECT_TURNS: 5}`, "/env"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, c.values)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestChartRefusesSecrets checks that the schema of the values refuses exactly the variables of secrets.
func TestChartRefusesSecrets(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			Env struct {
				PropertyNames struct{ Not struct{ Enum []string } }
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	want := []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TEMPORAL_API_KEY", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"}
	for _, s := range app.Settings() {
		if s.Type == "secret" {
			want = append(want, s.Env...)
		}
	}
	require.ElementsMatch(t, want, schema.Properties.Env.PropertyNames.Not.Enum)
}

// TestGuideOfTheChart renders the chart with the values in the guide.
func TestGuideOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../docs/guides/kubernetes.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "   # values.yaml\n")
	require.True(t, ok)
	values, _, _ := strings.Cut(example, "```")
	_, err = helm(t)(t, values)
	require.NoError(t, err)
}
