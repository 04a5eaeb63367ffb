package gatewaytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
)

// head is what the fake reads of a document.
type head struct {
	Kind        agent.Kind        `json:"kind"`
	Tenant      string            `json:"tenant"`
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Type        agent.NodeType    `json:"type"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	NodeID      string            `json:"node_id"`
	NodeVersion string            `json:"node_version"`
	Properties  json.RawMessage   `json:"properties"`
	Models      []string          `json:"models"`
}

// Apply implements [gateway.Documents]. Nodes and agents appear in the lists with what the fake reads of their documents.
func (c *Catalog) Apply(_ context.Context, r agent.ApplyRequest) (agent.ApplyResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied = append(c.applied, r)
	if c.Refuse != nil {
		if err := c.Refuse(r); err != nil {
			return agent.ApplyResult{}, err
		}
	}
	wanted, heads, err := parse(r.Files)
	if err != nil {
		return agent.ApplyResult{}, err
	}
	out := agent.ApplyResult{Revision: c.revision(), DryRun: r.DryRun}
	var event agent.CatalogEvent
	for i := range wanted {
		d := &wanted[i]
		change := agent.DocumentChange{DocumentKey: d.DocumentKey, Action: agent.ActionCreated, After: d.Body}
		if known := c.find(d.DocumentKey); known != nil {
			if (r.BaseRevision > 0 || r.FromEmpty) && known.Revision > r.BaseRevision {
				return agent.ApplyResult{}, conflict(known)
			}
			change.Action, change.Before = agent.ActionUpdated, known.Body
			if bytes.Equal(known.Body, d.Body) {
				change.Action = agent.ActionUnchanged
			}
		}
		out.Changes = append(out.Changes, change)
		if change.Action != agent.ActionUnchanged {
			c.appear(&event, &heads[i], r.Publish)
		}
	}
	gone := slices.Clone(r.Delete)
	for i := range c.DocumentList {
		d := &c.DocumentList[i]
		same := func(o agent.Document) bool { return o.DocumentKey == d.DocumentKey }
		if r.Prune && d.Source == r.Source && !slices.ContainsFunc(wanted, same) {
			gone = append(gone, d.DocumentKey)
		}
	}
	for _, key := range gone {
		known := c.find(key)
		if known == nil {
			return agent.ApplyResult{}, agent.Errorf(agent.CodeNotFound, "", "there is no %s", key)
		}
		if (r.BaseRevision > 0 || r.FromEmpty) && known.Revision > r.BaseRevision {
			return agent.ApplyResult{}, conflict(known)
		}
		out.Changes = append(out.Changes, agent.DocumentChange{DocumentKey: key, Action: agent.ActionDeleted, Before: known.Body})
		event.Removed = append(event.Removed, agent.RemovedEntry(key))
	}
	if r.DryRun || !slices.ContainsFunc(out.Changes, func(d agent.DocumentChange) bool { return d.Action != agent.ActionUnchanged }) {
		return out, nil
	}
	c.move(event)
	out.Revision = c.revision()
	c.store(out.Changes, &r)
	return out, nil
}

// CompileDraft implements [gateway.Documents].
func (c *Catalog) CompileDraft(_ context.Context, _, text string, allow func(agent.DocumentKey) error) (agent.Draft, error) {
	files := []agent.ManifestFile{{Name: "draft", Data: []byte(text)}}
	documents, _, err := parse(files)
	if err == nil && c.Refuse != nil {
		err = c.Refuse(agent.ApplyRequest{Files: files, DryRun: true})
	}
	if err == nil && len(documents) != 1 {
		err = agent.Invalid("draft", "want one AgentInstance")
	}
	if err == nil {
		err = allow(documents[0].DocumentKey)
	}
	if err != nil {
		return agent.Draft{}, err
	}
	return agent.Draft{Text: text, Agent: documents[0].Name, PlanHash: "sha256:draft"}, nil
}

func conflict(d *agent.Document) error {
	return agent.Errorf(agent.CodeConflict, "", "%s changed at revision %d", d.DocumentKey, d.Revision)
}

func (c *Catalog) find(key agent.DocumentKey) *agent.Document {
	for i := range c.DocumentList {
		if c.DocumentList[i].DocumentKey == key {
			return &c.DocumentList[i]
		}
	}
	return nil
}

// store takes the changes into documents and history at the newest revision.
func (c *Catalog) store(changes []agent.DocumentChange, r *agent.ApplyRequest) {
	var entries []agent.AuditEntry
	for _, change := range changes {
		if change.Action == agent.ActionUnchanged {
			continue
		}
		is := func(d *agent.Document) bool { return d.DocumentKey == change.DocumentKey }
		if change.Action == agent.ActionDeleted {
			c.DocumentList = filter(c.DocumentList, func(d *agent.Document) bool { return !is(d) })
		} else {
			c.DocumentList = put(c.DocumentList, agent.Document{
				DocumentKey: change.DocumentKey, Body: change.After, Revision: c.revision(), Source: r.Source, UpdatedAt: Epoch(), UpdatedBy: r.By,
			}, is)
		}
		entries = append(entries, agent.AuditEntry{
			DocumentChange: change, Revision: c.revision(), At: Epoch(), By: r.By, Source: r.Source, Comment: r.Comment,
		})
	}
	c.Entries = append(entries, c.Entries...)
}

// appear adds the node or agent of a document to an event.
func (c *Catalog) appear(e *agent.CatalogEvent, h *head, publish bool) {
	next := c.revision() + 1
	switch h.Kind {
	case agent.KindNode:
		e.Nodes = append(e.Nodes, agent.NodeInfo{
			NodeID: h.NodeID, Version: h.Version, Type: h.Type, Description: h.Description, Labels: h.Labels, Properties: h.Properties,
			Revision: next, Source: agent.SourceAPI,
		})
	case agent.KindAgent:
		a := agent.AgentInfo{
			Name: h.Name, Tenant: h.Tenant, InstanceID: h.Name + "@1", Description: h.Description, Labels: h.Labels, NodeID: h.NodeID,
			NodeVersion: h.NodeVersion, PlanHash: fmt.Sprintf("sha256:%064x", next), Models: h.Models, Revision: next, Source: agent.SourceAPI,
		}
		if publish {
			c.publish(&a)
		}
		e.Agents = append(e.Agents, a)
	default:
	}
}

// parse reads YAML streams and JSON, one document of which may be an array of documents.
func parse(files []agent.ManifestFile) ([]agent.Document, []head, error) {
	var documents []agent.Document
	var heads []head
	add := func(value any) error {
		body, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var h head
		if err := json.Unmarshal(body, &h); err != nil {
			return err
		}
		key := agent.DocumentKey{Kind: h.Kind, Name: h.NodeID, Version: h.Version}
		if h.Kind != agent.KindNode {
			h.Tenant = cmp.Or(h.Tenant, agent.DefaultTenant)
			key = agent.DocumentKey{Kind: h.Kind, Tenant: h.Tenant, Name: h.Name}
		}
		documents, heads = append(documents, agent.Document{DocumentKey: key, Body: body}), append(heads, h)
		return nil
	}
	for _, f := range files {
		d := yaml.NewDecoder(bytes.NewReader(f.Data))
		for {
			var value any
			err := d.Decode(&value)
			if errors.Is(err, io.EOF) {
				break
			}
			list, ok := value.([]any)
			if !ok && value != nil {
				list = []any{value}
			}
			for _, v := range list {
				err = cmp.Or(err, add(v))
			}
			if err != nil {
				return nil, nil, agent.Faults{{File: f.Name, Line: 1, Message: err.Error()}}.Err()
			}
		}
	}
	return documents, heads, nil
}
