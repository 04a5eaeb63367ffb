// Package turnstonetest runs the whole runtime in a Go test: Temporal, PostgreSQL, a worker with the gateway, and a model that the test scripts. Only
// PostgreSQL's programs have to be installed.
//
//	model := turnstonetest.NewModel(t, turnstonetest.Call("local_time", `{"zone":"Asia/Tokyo"}`), turnstonetest.Say("Late."))
//	stack := turnstonetest.Start(t, turnstone.Config{Toolkits: []agent.Toolkit{clock}}, model.Use)
//	out := stack.Run(agent.TurnRequest{Message: "how late is it?"})
//
// The code of a real provider sends HTTP requests to the model. The tests of a process share a Temporal server. Each test has a task queue, a database
// and a folder for blobs of its own. The package links the Temporal server, so it takes half a minute to link a test binary.
package turnstonetest
