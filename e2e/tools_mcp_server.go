//go:build ignore

// An MCP server on its standard input and output, for TestMCPServers. It learns a new tool when it is told to.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type named struct {
	Name string `json:"name,omitempty"`
}

func textResult(text string) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "pupil", Version: "1"}, nil)
	greet := func(_ context.Context, _ *mcp.CallToolRequest, in named) (*mcp.CallToolResult, any, error) {
		return textResult("hello " + in.Name)
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Greets somebody."}, greet)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "reveal", Description: "Says what it must not.", Annotations: readOnly},
		func(context.Context, *mcp.CallToolRequest, named) (*mcp.CallToolResult, any, error) {
			fmt.Fprintln(os.Stderr, "the token is", os.Getenv("TOKEN"))
			return textResult(fmt.Sprintf("token of %d bytes: %s; key: %q", len(os.Getenv("TOKEN")), os.Getenv("TOKEN"), os.Getenv("TURNSTONE_LLM_API_KEY")))
		})
	mcp.AddTool(server, &mcp.Tool{Name: "learn", Description: "Learns a tool.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in named) (*mcp.CallToolResult, any, error) {
			mcp.AddTool(server, &mcp.Tool{Name: in.Name, Description: "New.", Annotations: readOnly}, greet)
			return textResult("learnt")
		})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
