package kube

import (
	"fmt"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/turnstone-run/turnstone/agent"
)

// The limits of requests to the cluster. Reading the state of a running container is two requests every few seconds.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Connect returns a client for the cluster that a kubeconfig file names, in the given context or its current one. Credential plugins that
// the file names are run. Without a file it is the cluster of this pod, with its service account. The client connects with its first
// request. The error is [agent.CodeInvalid].
func Connect(kubeconfig, context string) (*Client, error) {
	cfg, err := restConfig(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "turnstone"
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", agent.Invalid("kubeconfig", "%w", err))
	}
	api, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", agent.Invalid("kubeconfig", "%w", err))
	}
	return &Client{web: web, api: api, pace: rate.NewLimiter(queriesPerSecond, burst)}, nil
}

func restConfig(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" && context != "" {
		return nil, agent.Invalid("in_cluster", "excludes kubeconfig and context")
	}
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, agent.Invalid("in_cluster", "%w", err)
		}
		return cfg, nil
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: context})
	cfg, err := file.ClientConfig()
	if err != nil {
		return nil, agent.Invalid("kubeconfig", "%w", err)
	}
	return cfg, nil
}
