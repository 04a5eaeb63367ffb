// Package toolsearch is the toolkit "toolsearch" with the tool search_tools, by which a model finds the tools that its turn is granted,
// including composites and the tools of MCP servers, and the workflows of its tenant.
//
// # Deferred tools
//
// A plan may defer tools: the model does not see them until search_tools has found them, so that hundreds of tools do not make the prompt
// longer. Deferred tools are revealed by {"tools":[{"name":…}]} in the answer ([agent.ToolSpec.RevealsTools]). Workflows are in a separate list.
//
// # Search
//
// Only tools of the turn are searched, so a model finds no tool that it is not granted. A tool is found by its name and the words of its name,
// and with a lower score by its description and parameters. The first 500 workflows of the tenant, by owner and tag, are searched if the turn
// has patch_workflow, which is the only use of them.
//
// # The answer
//
//	{"tools":[{"name","type":"tool|composite|mcp","description","toolkit","parameters":{…},"score"}],
//	 "workflows":[{"type":"workflow","workflow_tag","workflow_owner","description","version","score"}],
//	 "total_found":n,"hint":"…"}
//
// It has at most 24 KiB. A schema over 2 KiB is replaced by the names of its parameters. If the answer is too long, so are the schemas of the
// last entries, and then the last entries are left out.
package toolsearch
