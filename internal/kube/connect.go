package kube

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/turnstone-run/turnstone/agent"
)

// Access says how the cluster is reached: from within it, with the pod's own service account, or as a kubeconfig file says.
type Access struct {
	InCluster  bool
	Kubeconfig string // path of a file; credential plugins that it names are run
	Context    string // of the file; empty: its current one
}

// A look at a running container is two requests every few seconds.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Connect makes a client. It connects with its first request. namespace is the kubeconfig context's own, empty within the cluster. The error
// is [agent.CodeInvalid].
func Connect(a Access) (client kubernetes.Interface, namespace string, err error) {
	var cfg *rest.Config
	switch {
	case a.InCluster && (a.Kubeconfig != "" || a.Context != ""):
		return nil, "", agent.Invalid("in_cluster", "excludes kubeconfig and context")
	case a.InCluster:
		if cfg, err = rest.InClusterConfig(); err != nil {
			return nil, "", agent.Invalid("in_cluster", "%w", err)
		}
	case a.Kubeconfig == "":
		return nil, "", agent.Invalid("kubeconfig", "is required, or in_cluster")
	default:
		file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: a.Kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: a.Context})
		if cfg, err = file.ClientConfig(); err != nil {
			return nil, "", agent.Invalid("kubeconfig", "%w", err)
		}
		if namespace, _, err = file.Namespace(); err != nil {
			return nil, "", agent.Invalid("kubeconfig", "%w", err)
		}
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = "turnstone", queriesPerSecond, burst
	client, err = kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("cluster: %w", agent.Invalid("kubeconfig", "%w", err))
	}
	return client, namespace, nil
}
