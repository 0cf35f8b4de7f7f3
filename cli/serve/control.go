package serve

import "github.com/spf13/cobra"

// ControlProgram is the control plane.
const ControlProgram = "dyno-control"

func controlCommand() *cobra.Command {
	return programCommand(serviceProgram{
		program: ControlProgram,
		service: "control",
		short:   "Keep services, configuration and policies, and tell who watches",
		about: `The control plane keeps what clients write in etcd, in its own process or a cluster, and pushes
changes over HTTP and gRPC. It links etcd and grpc-go, and dyno links neither.`,
		example: "--listen 127.0.0.1:7100 --data control.d",
	})
}
