package serve

import "github.com/spf13/cobra"

func botCommand() *cobra.Command {
	return programCommand(serviceProgram{
		program: "dyno-bot", service: "bot", short: "Be a gateway between users and language models",
		about:   "It links clients of Redis, PostgreSQL and SQLite, which dyno does not.",
		example: "--listen 127.0.0.1:8000 --upstream http://127.0.0.1:9000/v1 --models dyno-1 --allow-network 127.0.0.1",
	})
}
