package llm

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
)

// target is where the calls of a profile go, with which key.
type target struct {
	provider       Provider // its Config has address and key
	timeout        time.Duration
	profile        string // for errors
	secret         string // reference of the key; empty: the configured key, or none
	header         string // for the key; empty: the provider's usual header
	isCustom       bool   // address or key come from the profile
	embeddingModel string // empty: the target is for messages
}

// target returns the target of a profile, with the key of its auth.
func (m *Models) target(ctx context.Context, pm *agent.PlanModel) (*target, error) {
	t, err := m.targetWithoutKey(pm)
	if err != nil {
		return nil, err
	}
	if t.provider.Config.HTTPClient == nil {
		return nil, agent.Errorf(agent.CodeDenied, "", "model profile %q: nothing may be sent to addresses that are not configured", t.profile)
	}
	if pm.Auth == nil {
		return t, nil
	}
	if err := m.setKey(ctx, t, pm.Auth); err != nil {
		return nil, fmt.Errorf("model profile %q: auth %q: %w", t.profile, pm.Auth.Name, err)
	}
	return t, nil
}

// targetWithoutKey returns the target of a profile, without the key of its auth.
func (m *Models) targetWithoutKey(pm *agent.PlanModel) (*target, error) {
	p, configured := m.providers[pm.Provider]
	if !configured {
		kind, ok := m.kinds[pm.Provider]
		if !ok {
			return nil, m.unknownProvider(pm.Provider)
		}
		p = kind
		p.Config.HTTPClient = cmp.Or(p.Config.HTTPClient, m.outbound)
	}
	t := &target{provider: p, timeout: time.Duration(pm.TimeoutSec) * time.Second, profile: cmp.Or(pm.Profile, pm.Provider)}
	if pm.BaseURL == "" && pm.Auth == nil {
		return t, nil
	}
	if !p.DocumentAddress {
		return nil, agent.Errorf(agent.CodeDenied, "",
			"model profile %q: provider %q takes no base_url and no auth from a document: configure them under llm or models", t.profile, p.Name)
	}
	// No configured credential may reach an address that the profile names. The configured HTTP client may send some too.
	t.isCustom = true
	t.provider.Config.APIKey, t.provider.Config.Ambient = "", false
	if pm.BaseURL != "" {
		t.provider.Config.BaseURL = pm.BaseURL
		t.provider.Config.HTTPClient = m.outbound
		t.provider.Config.HideAnswers = true
	}
	return t, nil
}

// setKey sets the key of the target to the secret of an auth.
func (m *Models) setKey(ctx context.Context, t *target, auth *agent.PlanAuth) error {
	switch {
	case auth.Type != agent.AuthBearer && auth.Type != agent.AuthAPIKey:
		return agent.Invalid("type", "is %s: a model takes bearer or api_key", auth.Type)
	case auth.Query != "":
		return agent.Invalid("query", "is given: a model's key goes into a header")
	case auth.Type == agent.AuthAPIKey && auth.Header != "" && !httpguts.ValidHeaderFieldName(auth.Header):
		return agent.Invalid("header", "is no name of a header: %q", auth.Header)
	case auth.Secret == "":
		return agent.Invalid("secret", "is empty")
	case m.secrets == nil:
		return agent.Invalid("secret", "cannot be read: no secrets are configured")
	}
	if err := t.checkHost(auth.Hosts); err != nil {
		return err
	}
	key, err := m.secrets.Reveal(ctx, auth.Tenant, auth.Secret)
	if err != nil {
		return err
	}
	if key == "" {
		return agent.Errorf(agent.CodeNotFound, "read secret "+auth.Secret, "is empty")
	}
	t.provider.Config.APIKey, t.secret = key, auth.Secret
	if auth.Type == agent.AuthAPIKey {
		t.header = auth.Header
	}
	return nil
}

// checkHost returns an error if the address is none of an auth's hosts. An auth without hosts may be sent to any address.
func (t *target) checkHost(hosts []string) error {
	if len(hosts) == 0 {
		return nil
	}
	u, err := url.Parse(cmp.Or(t.provider.Config.BaseURL, t.provider.OwnURL))
	if err != nil || u.Host == "" {
		return agent.Errorf(agent.CodeDenied, "", "it has hosts, and the profile's address is not known: give the profile a base_url")
	}
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if slices.ContainsFunc(hosts, func(rule string) bool { return matchesHost(strings.ToLower(rule), name, port) }) {
		return nil
	}
	return agent.Errorf(agent.CodeDenied, "", "may not be sent to %s: its hosts are %s", u.Host, strings.Join(hosts, ", "))
}

// matchesHost reports whether a rule matches a host. A rule is "host" or "*.host", and may end with ":port".
func matchesHost(rule, name, port string) bool {
	if host, rulePort, err := net.SplitHostPort(rule); err == nil {
		if rulePort != port {
			return false
		}
		rule = host
	}
	if parent, wild := strings.CutPrefix(rule, "*."); wild {
		return strings.HasSuffix(name, "."+parent)
	}
	return strings.Trim(rule, "[]") == name
}

// withHeader returns a client that sends the key in this header instead of the provider's usual one.
func withHeader(base *http.Client, header, key string) *http.Client {
	c := *base
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = &headerTransport{next: c.Transport, header: header, key: key}
	return &c
}

type headerTransport struct {
	next        http.RoundTripper
	header, key string
}

func (t *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	req.Header.Del("X-Api-Key")
	req.Header.Del("X-Goog-Api-Key")
	req.Header.Set(t.header, t.key)
	return t.next.RoundTrip(req)
}
