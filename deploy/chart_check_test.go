package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/turnstone-run/turnstone/internal/app"
)

// checkPods checks the pods of all Deployments and Jobs.
func (r *release) checkPods(t *testing.T) {
	t.Helper()
	for _, d := range r.deployments {
		pod := d.Spec.Template.Spec
		cfg := r.checkPod(t, &pod)
		c := pod.Containers[0]
		require.Equal(t, strings.HasSuffix(d.Name, "-worker"), cfg.Worker.Enabled, d.Name)
		require.True(t, cfg.Gateway.Enabled, "it serves /health and /metrics")
		require.Equal(t, "/health", c.ReadinessProbe.HTTPGet.Path)
		require.Nil(t, c.LivenessProbe.HTTPGet, "an outage of the database is no reason to restart everything")
		for _, port := range []intstr.IntOrString{c.ReadinessProbe.HTTPGet.Port, c.LivenessProbe.TCPSocket.Port, c.StartupProbe.TCPSocket.Port} {
			require.Equal(t, "http", port.StrVal)
		}
		grace := time.Duration(*pod.TerminationGracePeriodSeconds-c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		require.Greater(t, grace, cfg.Jobs.DrainTimeout+cfg.ShutdownTimeout, "a drain is not cut off")
		for name, addr := range map[string]string{"http": cfg.HTTP.Addr, "grpc": cfg.GRPC.Addr, "relay": cfg.Events.Relay.Address} {
			i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
			require.GreaterOrEqual(t, i, 0, name)
			require.Equal(t, addr, fmt.Sprintf(":%d", c.Ports[i].ContainerPort))
		}
		require.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
		account := slices.ContainsFunc(r.accounts, func(a *corev1.ServiceAccount) bool { return a.Name == pod.ServiceAccountName })
		require.True(t, account || pod.ServiceAccountName == "default", pod.ServiceAccountName)
	}
	for _, j := range r.jobs {
		pod := j.Spec.Template.Spec
		r.checkPod(t, &pod)
		require.Equal(t, []string{"migrate"}, pod.Containers[0].Args)
		require.Equal(t, "pre-install,pre-upgrade,pre-rollback", j.Annotations["helm.sh/hook"])
		require.Empty(t, pod.Volumes, "what a hook needs is there before the release is")
		require.Empty(t, pod.ServiceAccountName, "as above")
	}
}

// checkPod checks what is the same for a Job and a Deployment, and returns the settings of the pod.
func (r *release) checkPod(t *testing.T, pod *corev1.PodSpec) *app.Config {
	t.Helper()
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)
	require.EqualValues(t, 65532, *pod.SecurityContext.FSGroup)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.False(t, *pod.EnableServiceLinks, "Kubernetes would set TURNSTONE_PORT and the like")
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.False(t, c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero())

	env := map[string]string{ // the variables of the Secret
		"DATABASE_URL": "postgres://x", "OPENAI_API_KEY": "x", "TURNSTONE_AUTH_OPERATOR_KEY": strings.Repeat("k", 40), "TURNSTONE_STORAGE_BLOB_URL": "s3://x",
	}
	set := map[string]bool{}
	for _, v := range c.Env {
		require.Contains(t, app.Variables(), v.Name, "nobody reads this variable")
		require.False(t, set[v.Name], "%s stands twice", v.Name)
		set[v.Name] = true
		env[v.Name] = v.Value
		if v.ValueFrom != nil {
			require.Equal(t, "status.podIP", v.ValueFrom.FieldRef.FieldPath)
			env[v.Name] = "10.0.0.7"
		}
	}
	if file := env["TURNSTONE_CONFIG"]; file != "" {
		env["TURNSTONE_CONFIG"] = r.configFile(t, pod, file)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.AddFlags(flags)
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	cfg, err := app.Load(app.Sources{Flags: flags, Env: list, Dir: t.TempDir()})
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings())
	return cfg
}

// configFile writes the file of a ConfigMap that a pod reads at path to a temporary file, and returns its path.
func (r *release) configFile(t *testing.T, pod *corev1.PodSpec, path string) string {
	t.Helper()
	require.Len(t, r.configs, 1)
	require.True(t, slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == r.configs[0].Name }))
	require.True(t, slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(path) }))
	text, ok := r.configs[0].Data[filepath.Base(path)]
	require.True(t, ok)
	file := filepath.Join(t.TempDir(), filepath.Base(path))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// selected returns the names of the Deployments whose pods match a selector.
func (r *release) selected(t *testing.T, selector map[string]string) (names []string) {
	t.Helper()
	for _, d := range r.deployments {
		if labels.SelectorFromSet(selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			names = append(names, d.Name)
		}
	}
	return names
}

// checkSelectors checks that each selector matches the right pods.
func (r *release) checkSelectors(t *testing.T) {
	t.Helper()
	var all []string
	for _, d := range r.deployments {
		all = append(all, d.Name)
		require.Equal(t, []string{d.Name}, r.selected(t, d.Spec.Selector.MatchLabels), "a Deployment selects its own pods alone")
		for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			require.Equal(t, d.Spec.Selector, c.LabelSelector)
		}
	}
	gateway := slices.MinFunc(all, strings.Compare) // in alphabetical order before the worker
	for _, s := range r.services {
		if s.Spec.ClusterIP == corev1.ClusterIPNone {
			require.ElementsMatch(t, all, r.selected(t, s.Spec.Selector))
		} else {
			require.Equal(t, []string{gateway}, r.selected(t, s.Spec.Selector))
		}
		for _, p := range s.Spec.Ports {
			require.True(t, slices.ContainsFunc(r.deployments[0].Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
				return c.Name == p.TargetPort.StrVal && c.ContainerPort == p.Port
			}), p.Name)
		}
	}
	for _, b := range r.budgets {
		require.Equal(t, []string{b.Name}, r.selected(t, b.Spec.Selector.MatchLabels))
	}
	for _, m := range r.monitors {
		var found []*corev1.Service
		for _, s := range r.services {
			if labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
				found = append(found, s)
			}
		}
		require.Len(t, found, 1)
		require.Equal(t, found[0].Spec.Ports[0].Name, m.Spec.Endpoints[0].Port)
		require.Equal(t, "turnstone", found[0].Labels[m.Spec.JobLabel], "the alerts look for this job")
	}
}

// checkScaling checks that each autoscaler scales a Deployment by metrics that exist.
func (r *release) checkScaling(t *testing.T) {
	t.Helper()
	for _, h := range r.scalers {
		require.Equal(t, h.Name, h.Spec.ScaleTargetRef.Name)
		require.Equal(t, "apps/v1", h.Spec.ScaleTargetRef.APIVersion)
		slots := false
		for _, m := range h.Spec.Metrics {
			if m.Type != autoscalingv2.PodsMetricSourceType {
				continue
			}
			slots = true
			found, ok := find(registered(t), m.Pods.Metric.Name)
			require.True(t, ok && found.sdk, m.Pods.Metric.Name)
			require.Subset(t, sdkLabels(), slices.Collect(maps.Keys(m.Pods.Metric.Selector.MatchLabels)))
			require.Less(t, int(m.Pods.Target.AverageValue.Value()), app.Default().Temporal.MaxConcurrentActivities, "more slots than there are")
		}
		require.Equal(t, strings.HasSuffix(h.Name, "-worker"), slots, "who runs turns is scaled by slots")
	}
}

// checkNetwork checks that the network policy opens the ports of the pods, and the relay's port to the same installation only.
func (r *release) checkNetwork(t *testing.T) {
	t.Helper()
	for _, p := range r.policies {
		require.Len(t, r.selected(t, p.Spec.PodSelector.MatchLabels), len(r.deployments))
		open := map[string]bool{}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				open[port.Port.StrVal] = true
				if port.Port.StrVal == "relay" {
					require.Equal(t, &metav1.LabelSelector{MatchLabels: p.Spec.PodSelector.MatchLabels}, rule.From[0].PodSelector, "nobody but the installation")
				}
			}
		}
		for _, port := range r.deployments[0].Spec.Template.Spec.Containers[0].Ports {
			require.True(t, open[port.Name], port.Name)
		}
	}
}
