package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// manifest is what is applied before the first turn: the agents with their models, and what else the scenario brings.
func (sc *scenario) manifest(r *run) ([]agent.ManifestFile, error) {
	profiles := map[string]map[string]any{mainProfile: sc.Profile}
	maps.Copy(profiles, sc.Profiles)
	var docs []map[string]any
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		doc := map[string]any{"kind": agent.KindModel, "name": name, "provider": "openai", "model": "model-" + name, "auth": keyProfile}
		maps.Copy(doc, profiles[name])
		doc["base_url"] = r.provider.baseURL(name, fmt.Sprint(doc["provider"]))
		docs = append(docs, doc)
	}
	for _, name := range slices.Sorted(maps.Keys(sc.Collections)) {
		doc := map[string]any{"kind": agent.KindKnowledge, "name": name}
		maps.Copy(doc, sc.Collections[name])
		docs = append(docs, doc)
	}
	agents := map[string]agentForm{"clerk": sc.agentForm}
	maps.Copy(agents, sc.Agents)
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		form := agents[name]
		docs = append(docs, form.document(name))
	}
	for _, policy := range []agent.Approve{agent.ApproveAlways, agent.ApproveNever} {
		docs = append(docs, map[string]any{
			"kind": agent.KindBinding, "name": bindingOf(string(policy)), "node_id": deskName, "node_version": "1", "approval": policy,
		})
	}
	docs = append(docs, sc.Documents...)
	var text bytes.Buffer
	for _, doc := range docs {
		doc = maps.Clone(doc)
		doc["tenant"] = r.tenant
		body, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "---\n%s\n", body)
	}
	return []agent.ManifestFile{{Name: sc.Name + ".yaml", Data: text.Bytes()}}, nil
}

// document is an agent in full.
func (f *agentForm) document(name string) map[string]any {
	doc := map[string]any{
		"kind": agent.KindAgent, "name": name, "node_id": cmp.Or(f.Node, "agent"), "node_version": "1", "models": f.Models,
	}
	if len(f.Models) == 0 {
		doc["models"] = []string{mainProfile}
	}
	parameters := maps.Clone(f.Parameters)
	if parameters == nil && f.Node == "" {
		parameters = map[string]any{"system_message": cmp.Or(f.Prompt, "You are a "+name+".")}
	}
	if parameters != nil {
		doc["parameters"] = parameters
	}
	tools := grants(f.Tools)
	for field, v := range map[string]any{"tools": tools, "middleware": f.Middleware, "delegates": f.Delegates, "knowledge": f.Searches} {
		if body, err := json.Marshal(v); err == nil && string(body) != "null" {
			doc[field] = v
		}
	}
	if f.Limits != nil {
		doc["limits"] = f.Limits
	}
	if f.OutputSchema != nil {
		doc["output_schema"] = f.OutputSchema
	}
	return doc
}

// grants reads the tools of the desk by their names, those of one policy as one grant; what is none is a grant as it stands.
func grants(list []json.RawMessage) []any {
	var out []any
	byBinding := map[string]*agent.ToolGrant{}
	for _, raw := range list {
		var word string
		if json.Unmarshal(raw, &word) != nil {
			out = append(out, raw)
			continue
		}
		name, policy, _ := strings.Cut(word, " ")
		if !slices.Contains(deskTools(), name) {
			out = append(out, raw)
			continue
		}
		binding := bindingOf(policy)
		grant, ok := byBinding[binding]
		if !ok {
			grant = &agent.ToolGrant{Toolkit: binding}
			byBinding[binding] = grant
			out = append(out, grant)
		}
		grant.Tools = append(grant.Tools, name)
	}
	return out
}

// bindingOf names the desk's tools under a policy.
func bindingOf(policy string) string {
	if policy == "" {
		return deskName
	}
	return deskName + "-" + policy
}
