package inbox

import (
	"cmp"
	"context"
	"path"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

// searchTopK is the number of passages that a search returns if neither the request nor the collection sets it.
const searchTopK = 4

// AddKnowledge adds a file to a collection of the catalog.
func (b *Inbox) AddKnowledge(ctx context.Context, k gateway.KnowledgeAdd) ([]agent.KnowledgeDocument, error) {
	def, embedding, err := b.Catalog.Collection(ctx, k.Tenant, k.Collection)
	if err != nil {
		return nil, err
	}
	name := ""
	if k.Source != "" {
		name = path.Base(k.Source)
	}
	added, err := b.Library.Add(ctx, retrieval.AddRequest{
		Tenant: def.Tenant, Collection: def.Name, Definition: def, Embedding: embedding, ID: k.ID, Title: k.Title, Source: k.Source,
		MIMEType: k.MIMEType, Name: name, Metadata: k.Metadata, Body: k.Body,
	})
	if err != nil {
		return nil, err
	}
	out := make([]agent.KnowledgeDocument, 0, len(added))
	for i := range added {
		d, err := b.KnowledgeDocument(ctx, def.Tenant, def.Name, added[i].ID)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Knowledge lists the documents of a collection.
func (b *Inbox) Knowledge(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error) {
	def, _, err := b.Catalog.Collection(ctx, tenant, collection)
	if err != nil {
		return agent.KnowledgePage{}, err
	}
	return b.KnowledgeDocuments(ctx, def.Tenant, def.Name, after, limit)
}

// DeleteKnowledge deletes a document.
func (b *Inbox) DeleteKnowledge(ctx context.Context, tenant, collection, id string) error {
	def, _, err := b.Catalog.Collection(ctx, tenant, collection)
	if err != nil {
		return err
	}
	return b.DeleteDocument(ctx, def.Tenant, def.Name, id)
}

// SearchKnowledge searches a collection as agents do.
func (b *Inbox) SearchKnowledge(ctx context.Context, tenant, collection, text string, topK int) ([]agent.Passage, error) {
	def, embedding, err := b.Catalog.Collection(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	return b.Library.Search(ctx, agent.KnowledgeQuery{
		Tenant: def.Tenant, Collection: def.Name, Text: text, TopK: cmp.Or(topK, def.TopK, searchTopK), MinScore: def.MinScore, Embedding: embedding,
	})
}
