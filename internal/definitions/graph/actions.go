package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// Bounds of actions.
const (
	maxRecipients = 50
	maxAddress    = 320 // bytes
	maxSubject    = 1_000
	maxURL        = 4_096
	maxHeaders    = 32
	maxHeader     = 4_096 // bytes of a value
	maxSteps      = 50
	maxRef        = 1_024
)

// Addresses are one address or a list of them.
type Addresses []string

// UnmarshalJSON takes a string or an array of strings.
func (a *Addresses) UnmarshalJSON(raw []byte) error {
	var single string
	if json.Unmarshal(raw, &single) == nil {
		if single != "" {
			*a = Addresses{single}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("want an address or a list of addresses")
	}
	*a = list
	return nil
}

func (r *reader) addresses(member string, list Addresses) {
	if len(list) > maxRecipients {
		r.fault(member, "are %d, at most %d", len(list), maxRecipients)
		return
	}
	for i, address := range list {
		if parsed, err := mail.ParseAddress(address); err != nil || len(address) > maxAddress || strings.ContainsAny(address, "\r\n") {
			r.fault(fmt.Sprintf("%s[%d]", member, i), "%q is no address, such as ops@example.com", clip(address))
		} else if !strings.Contains(parsed.Address, "@") {
			r.fault(fmt.Sprintf("%s[%d]", member, i), "%q has no domain", clip(address))
		}
	}
}

// affordable counts expressions, and refuses them when a definition has too many.
func (r *reader) affordable(member string, n int) bool {
	if *r.expressions += n; *r.expressions > maxExpressions {
		r.fault(member, "the definition has more than %d expressions", maxExpressions)
		return false
	}
	return true
}

func (r *reader) template(member, text string) {
	if !r.affordable(member, strings.Count(text, "{{")) {
		return
	}
	if _, err := expr.CompileTemplate(text); err != nil {
		r.fault(member, "%s", err.Error())
	}
}

func (r *reader) email() *Email {
	e := new(Email)
	if !r.decode(e) {
		return nil
	}
	r.addresses("config.to", e.To)
	r.addresses("config.cc", e.CC)
	if len(e.Subject) > maxSubject {
		r.fault("config.subject", "is %d bytes, at most %d", len(e.Subject), maxSubject)
	} else if strings.ContainsAny(e.Subject, "\r\n") {
		r.fault("config.subject", "is more than one line")
	}
	r.template("config.subject", e.Subject)
	r.template("config.body", e.Body)
	r.attempts(&e.Attempts, maxTask)
	return e
}

// webhookMethods are those that a webhook may have.
func webhookMethods() []string {
	return []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

func (r *reader) webhook() *Webhook {
	w := new(Webhook)
	if !r.decode(w) {
		return nil
	}
	r.address(w.URL)
	if w.Method != "" && !slices.Contains(webhookMethods(), w.Method) {
		r.fault("config.method", "want one of %s, got %q", strings.Join(webhookMethods(), ", "), clip(w.Method))
	}
	r.headers(w.Headers)
	if w.Auth != "" && !agent.ValidName(w.Auth) {
		r.fault("config.auth", "want the name of an auth profile, got %q", clip(w.Auth))
	}
	if text := ""; !null(w.Body) && json.Unmarshal(w.Body, &text) == nil {
		r.template("config.body", text)
	}
	r.attempts(&w.Attempts, maxTask)
	return w
}

// address checks the URL of a webhook as far as it can be without what is put into it.
func (r *reader) address(text string) {
	const member = "config.url"
	switch {
	case text == "":
		r.fault(member, "is required")
		return
	case len(text) > maxURL:
		r.fault(member, "is %d bytes, at most %d", len(text), maxURL)
		return
	}
	r.template(member, text)
	fixed, _, templated := strings.Cut(text, "{{")
	if templated && fixed == "" {
		return
	}
	u, err := url.Parse(fixed)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		r.fault(member, "want an http or https URL with a host")
	case u.User != nil:
		r.fault(member, "must not hold credentials: name an auth profile as config.auth")
	case templated && u.Path == "":
		r.fault(member, "the host must not be made of an expression: put one behind https://host/ or make it all of the URL")
	}
}

func (r *reader) headers(headers map[string]string) {
	if len(headers) > maxHeaders {
		r.fault("config.headers", "are %d, at most %d", len(headers), maxHeaders)
		return
	}
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path, value := "config.headers."+clip(name), headers[name]
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "Cookie", "Proxy-Authorization":
			r.fault(path, "must not hold credentials: name an auth profile as config.auth")
			continue
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Idempotency-Key":
			r.fault(path, "is the runtime's")
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			r.fault(path, "is no name of a header")
		case len(value) > maxHeader:
			r.fault(path, "is %d bytes, at most %d", len(value), maxHeader)
		case !httpguts.ValidHeaderFieldValue(value):
			r.fault(path, "has characters that no header may have")
		}
	}
}

func (r *reader) pipeline() *Pipeline {
	p := new(Pipeline)
	if !r.decode(p) {
		return nil
	}
	switch n := len(p.Pipeline); {
	case n == 0:
		r.fault("config.pipeline", "has no steps")
	case n > maxSteps:
		r.fault("config.pipeline", "has %d steps, at most %d", n, maxSteps)
	}
	for i, raw := range p.Pipeline {
		var step struct {
			Step string `json:"step"`
		}
		if err := json.Unmarshal(raw, &step); err != nil || null(raw) {
			r.fault(fmt.Sprintf("config.pipeline[%d]", i), "want an object with a step")
		} else if step.Step == "" {
			r.fault(fmt.Sprintf("config.pipeline[%d].step", i), "is required")
		}
	}
	if len(p.InputRef) > maxRef {
		r.fault("config.input_ref", "is %d bytes, at most %d", len(p.InputRef), maxRef)
	}
	r.attempts(&p.Attempts, maxTask)
	return p
}

func (r *reader) agent() *Agent {
	a := new(Agent)
	if !r.decode(a) {
		return nil
	}
	if a.Agent == "" {
		r.fault("config.agent", "is required")
	} else if !agent.ValidName(a.Agent) {
		r.fault("config.agent", "%q is no name of an agent", clip(a.Agent))
	}
	if strings.TrimSpace(a.Message) == "" {
		r.fault("config.message", "is required")
	}
	r.template("config.message", a.Message)
	r.template("config.session", a.Session)
	if !null(a.OutputSchema) && !bytes.HasPrefix(a.OutputSchema, []byte("{")) {
		r.fault("config.output_schema", "want an object")
	}
	r.attempts(&a.Attempts, maxTurn)
	return a
}
