package client

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

const erasuresPath = "erasures"

type (
	// EraseRequest names the user whose data is removed.
	EraseRequest = erasure.Request
	// Erasure is a request with its state and, once it has ended, its report.
	Erasure = erasure.Erasure
	// ErasurePage is a page of erasures, newest first.
	ErasurePage = erasure.Page
)

// Erase starts the erasure of what is kept of a user, which goes on by itself. It returns the erasure under way if the user has one.
func (c *Client) Erase(ctx context.Context, r EraseRequest) (Erasure, error) {
	return post[Erasure](ctx, c, r, erasuresPath)
}

// Erasure returns an erasure by its id, with the report if it has ended.
func (c *Client) Erasure(ctx context.Context, id string) (Erasure, error) {
	return get[Erasure](ctx, c, nil, erasuresPath, id)
}

// Erasures returns a page of them, newest first, without their reports.
func (c *Client) Erasures(ctx context.Context, p agent.Page) (ErasurePage, error) {
	return get[ErasurePage](ctx, c, pageParams(p), erasuresPath)
}
