package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

const knowledgePath = "knowledge"

// File is a file for a knowledge collection. Its tenant is the client's, whatever it says.
type File = gateway.KnowledgeAdd

// AddKnowledge uploads a file. Body is read once, as it is sent.
func (c *Client) AddKnowledge(ctx context.Context, k File) ([]agent.KnowledgeDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.LongTimeout)
	defer cancel()
	query := url.Values{}
	set(query, "id", k.ID)
	set(query, "title", k.Title)
	set(query, "source", k.Source)
	set(query, "metadata", string(k.Metadata))
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if k.MIMEType != "" {
		header.Set("Content-Type", k.MIMEType)
	}
	path := []string{knowledgePath, k.Collection, "documents"}
	resp, err := c.do(ctx, http.MethodPost, path, query, k.Body, header)
	if err != nil {
		return nil, err
	}
	var out struct {
		Documents []agent.KnowledgeDocument `json:"documents"`
	}
	return out.Documents, decodeAnswer(ctx, resp, http.MethodPost, path, &out)
}

// Knowledge returns a page of a collection's documents, by id.
func (c *Client) Knowledge(ctx context.Context, collection string, p agent.Page) (agent.KnowledgePage, error) {
	var out struct {
		Documents []agent.KnowledgeDocument `json:"documents"`
		Next      string                    `json:"next_page_token"`
	}
	err := c.call(ctx, http.MethodGet, []string{knowledgePath, collection, "documents"}, pageQuery(p), nil, &out)
	return agent.KnowledgePage{Documents: out.Documents, Next: out.Next}, err
}

// DeleteKnowledge forgets a document; [agent.CodeNotFound] when there is none.
func (c *Client) DeleteKnowledge(ctx context.Context, collection, id string) error {
	return c.call(ctx, http.MethodDelete, []string{knowledgePath, collection, "documents", id}, nil, nil, nil)
}

// SearchKnowledge finds passages as an agent of the collection would; topK 0 is the server's.
func (c *Client) SearchKnowledge(ctx context.Context, collection, text string, topK int) ([]agent.Passage, error) {
	query := url.Values{"q": {text}}
	if topK != 0 {
		query.Set("top_k", strconv.Itoa(topK))
	}
	var out struct {
		Passages []agent.Passage `json:"passages"`
	}
	err := c.call(ctx, http.MethodGet, []string{knowledgePath, collection, "search"}, query, nil, &out)
	return out.Passages, err
}
