// Package turnstonetest gives a Go test the whole runtime: Temporal, PostgreSQL, a worker with the gateway, and a model that says what the test
// wants. Nothing has to be installed but PostgreSQL's binaries.
//
//	model := turnstonetest.NewModel(t, turnstonetest.Call("local_time", `{"zone":"Asia/Tokyo"}`), turnstonetest.Say("Late."))
//	stack := turnstonetest.Start(t, turnstone.Config{Toolkits: []agent.Toolkit{clock}}, model.Use)
//	out := stack.Run(agent.TurnRequest{Message: "how late is it?"})
//
// Real providers' code talks HTTP to the model. Tests of a process share the Temporal server; each has a task queue, a database and a folder
// for blobs of its own. The package links the Temporal server, so that a test binary with it takes half a minute to link.
package turnstonetest
