// Package scenario has the parts of the lab's scenarios, and runs them.
//
// A [Scenario] is one file: the question, the engines it needs, the service
// under load in its variants, the load, what is measured and what must hold.
// Its Run gets a [Lab], which starts what it needs and stops it whatever
// happens, and writes down what was measured:
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
//			l.Check("nobody gets an error", m.Failures == 0, "%d failed", m.Failures)
//			s.Stop()
//		}
//		return nil
//	}
//
// # Processes
//
// The lab, every service and the load generator are processes of their own, of
// the same program; [Child] is the main function of all but the lab. Where
// the machine has two processors or more the generator has one half of them to
// itself, so that what it uses is not taken from what it measures. They talk
// over real sockets.
package scenario
