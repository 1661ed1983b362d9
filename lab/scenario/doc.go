// Package scenario has the building blocks of the lab's scenarios, and runs them.
//
// A [Scenario] is one file: the question, the engines it needs, the service under
// load in its variants, the load, the measurements and the checks. Its Run gets a
// [Lab], which starts services and engines, always stops them, and records the
// measurements:
//
//	func run(ctx context.Context, l *scenario.Lab) error {
//		for _, variant := range []string{"unprotected", "weir"} {
//			s, err := l.Serve(ctx, variant, nil)
//			if err != nil {
//				return err
//			}
//			m, err := l.Measure(ctx, s, scenario.Job{Load: load.Spec{Clients: 20, Requests: 100}})
//			if err != nil {
//				return err
//			}
//			l.Check("no request fails", m.Failures == 0, "%d failed", m.Failures)
//			s.Stop()
//		}
//		return nil
//	}
//
// # Processes
//
// The lab, every service and the load generator are separate processes of the same
// program; [Child] is the main function of all except the lab. On a machine with two
// processors or more the generator has half of them to itself, so that it does not
// take CPU from the services under test. The processes communicate over real sockets.
package scenario
