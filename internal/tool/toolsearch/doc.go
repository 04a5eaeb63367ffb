// Package toolsearch is the toolkit "toolsearch" with the one tool search_tools: by it a model finds the tools that its
// turn is granted, those that pipelines were promoted to and those of MCP servers among them, and the workflows of its tenant.
//
// # Deferred tools
//
// A plan may defer tools: the model is not told of them until search_tools has found them, so hundreds cost no prompt. The answer's
// {"tools":[{"name":…}]} is what reveals them ([agent.ToolSpec.RevealsTools]). Workflows are no tools and stand in a list of their own.
//
// # What is searched
//
// Tools are the turn's, so tenant and grants are respected by what they are. A tool is found by its name, its words apart, and, for less,
// by its description and its parameters. Workflows are searched while the turn has patch_workflow, with which a model can do something
// about them: the first 500 of the tenant, by owner and tag.
//
// # The answer
//
//	{"tools":[{"name","type":"tool|composite|mcp","description","toolkit","parameters":{…},"score"}],
//	 "workflows":[{"type":"workflow","workflow_tag","workflow_owner","description","version","score"}],
//	 "total_found":n,"hint":"…"}
//
// It is at most 24 KiB: schemas over 2 KiB, and then those of the worst entries, are names alone, and then the worst entries are left out.
package toolsearch
