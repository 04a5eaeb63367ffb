package app

import (
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// maxMCPServers bounds the list of servers that a process starts.
const maxMCPServers = 64

func (l *loader) tools() {
	t := l.cfg.Tools
	between(l, "tools.pipeline.max_bytes", t.Pipeline.MaxBytes, 1<<10, 1<<30)
	between(l, "tools.pipeline.cache_ttl", t.Pipeline.CacheTTL, 0, 30*24*time.Hour)
	between(l, "tools.pipeline.promote_after", t.Pipeline.PromoteAfter, 0, 1_000_000)
	between(l, "tools.openapi.cache_bytes", t.OpenAPI.CacheBytes, 1<<20, 4<<30)
	between(l, "tools.openapi.max_response_bytes", t.OpenAPI.MaxResponseBytes, 1<<10, 32<<20)
	between(l, "tools.openapi.freshness", t.OpenAPI.Freshness, time.Second, 24*time.Hour)
	l.research()
	l.mcp()
	if k := t.Kubernetes; k.Enabled {
		l.required("tools.kubernetes.namespace", k.Namespace)
		between(l, "tools.kubernetes.deadline", k.Deadline, time.Second, 7*time.Minute+30*time.Second) // a call ends after 8 minutes
		between(l, "tools.kubernetes.ttl", k.TTL, time.Minute, 30*24*time.Hour)
	}
}

func (l *loader) research() {
	r := l.cfg.Tools.Research
	for path, address := range map[string]string{
		"pubmed_url": r.PubMedURL, "trials_url": r.TrialsURL, "preprints_url": r.PreprintsURL, "openalex_url": r.OpenAlexURL, "web_url": r.WebURL,
	} {
		l.webAddress("tools.research."+path, address)
	}
	for path, rate := range map[string]float64{
		"pubmed_rate": r.PubMedRate, "trials_rate": r.TrialsRate, "preprints_rate": r.PreprintsRate, "openalex_rate": r.OpenAlexRate, "web_rate": r.WebRate,
	} {
		if rate != 0 {
			between(l, "tools.research."+path, rate, 0.001, 1000)
		}
	}
	between(l, "tools.research.max_wait", r.MaxWait, time.Second, 5*time.Minute)
	between(l, "tools.research.source_timeout", r.SourceTimeout, time.Second, 5*time.Minute)
	if r.Contact != "" {
		l.mailbox("tools.research.contact", r.Contact)
	}
	if r.WebProvider != "" && l.oneOf("tools.research.web_provider", r.WebProvider, "duckduckgo", "searxng", "brave") && r.WebProvider == "searxng" {
		l.required("tools.research.web_url", r.WebURL)
	}
}

func (l *loader) mcp() {
	servers := l.cfg.Tools.MCP.Servers
	if len(servers) > maxMCPServers {
		l.fault("tools.mcp.servers", "are %d, at most %d", len(servers), maxMCPServers)
	}
	seen := map[string]bool{}
	for i := range servers {
		s, path := &servers[i], fmt.Sprintf("tools.mcp.servers[%d]", i)
		switch {
		case !profileName.MatchString(s.Name):
			l.fault(path+".name", "want 1 to 64 letters, digits, dots, underscores or dashes")
		case seen[s.Name]:
			l.fault(path+".name", "%q is taken", s.Name)
		}
		seen[s.Name] = true
		l.required(path+".command", s.Command)
		for j, entry := range s.Env {
			if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
				l.fault(fmt.Sprintf("%s.env[%d]", path, j), "want NAME=value")
			}
		}
	}
}

func (l *loader) workflows() {
	w := l.cfg.Workflows
	l.webAddress("workflows.orchestrator_url", w.OrchestratorURL)
	between(l, "workflows.reconcile_every", w.ReconcileEvery, 0, 24*time.Hour)
	if w.SMTP.Addr == "" {
		return
	}
	l.address("workflows.smtp.addr", w.SMTP.Addr, 1)
	l.mailbox("workflows.smtp.from", w.SMTP.From)
	for i, to := range w.SMTP.To {
		l.mailbox(fmt.Sprintf("workflows.smtp.to[%d]", i), to)
	}
	for i, rule := range w.SMTP.AllowTo {
		if at := strings.TrimPrefix(rule, "*"); !strings.Contains(at, "@") || strings.ContainsAny(at, "* ") {
			l.fault(fmt.Sprintf("workflows.smtp.allow_to[%d]", i), "want an address or *@domain")
		}
	}
	l.oneOf("workflows.smtp.tls", w.SMTP.TLS, "starttls", "tls", "none")
}

// webAddress wants an http or https URL, or nothing.
func (l *loader) webAddress(path, value string) {
	if value == "" {
		return
	}
	if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		l.fault(path, "want an http or https URL without credentials")
	}
}

func (l *loader) mailbox(path, value string) {
	if _, err := mail.ParseAddress(value); err != nil {
		l.fault(path, "want an email address")
	}
}
