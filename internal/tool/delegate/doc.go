// Package delegate is the toolkit "delegate" with the tools delegate_to_agent, which gives work to another agent, and get_delegated_job,
// which looks at an earlier container.
//
// For agent_type langchain_agent the work is a turn of another agent of the catalog, one that the asking agent lists among its delegates.
// The runtime runs it as a child of the asking turn ([agent.Delegator]), and its result is the call's. The tool only reads who is asked,
// and what:
//
//   - config.agent names the delegate; it may be left out if there is one.
//   - inputs.message, else inputs.task, else inputs.input is the message, if it is a string. The rest of inputs follows it as JSON;
//     without any of the three the message is inputs as JSON.
//   - config.limits bound the child turn: they can only lower what the asking turn has left.
//
// The other agent types are containers on a cluster. Without a cluster, the tool answers the manifest of the container instead of running
// it.
package delegate
