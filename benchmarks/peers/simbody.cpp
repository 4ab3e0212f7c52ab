// The chain in Simbody: a tree of ball joints, with one of its integrators.
//
//     simbody N INTEGRATOR ACCURACY STEP T_END REPEATS
//
// ACCURACY 0 asks for equal steps of STEP. Prints the least CPU time [s] and the free end (x y z).
#include <Simbody.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

using namespace SimTK;

static double cpu_time() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static std::unique_ptr<Integrator> make_integrator(const std::string &name,
                                                   const MultibodySystem &system) {
    if (name == "RungeKuttaMerson")
        return std::unique_ptr<Integrator>(new RungeKuttaMersonIntegrator(system));
    if (name == "RungeKutta3")
        return std::unique_ptr<Integrator>(new RungeKutta3Integrator(system));
    return std::unique_ptr<Integrator>(new CPodesIntegrator(system, CPodes::Adams));
}

int main(int argc, char **argv) {
    if (argc != 7) {
        std::fprintf(stderr, "simbody N INTEGRATOR ACCURACY STEP T_END REPEATS\n");
        return 2;
    }
    const int n = std::atoi(argv[1]), repeats = std::atoi(argv[6]);
    const std::string name = argv[2];
    const double accuracy = std::atof(argv[3]), step = std::atof(argv[4]), t_end = std::atof(argv[5]);

    MultibodySystem system;
    SimbodyMatterSubsystem matter(system);
    GeneralForceSubsystem forces(system);
    Force::UniformGravity(forces, matter, Vec3(0, 0, -9.81));
    const Vec3 centre(0.5, 0, 0);
    const Inertia own(0.02 / 12, 1.01 / 12, 1.01 / 12);
    const Body::Rigid rod(MassProperties(1, centre, own + Inertia(centre, 1.0)));
    std::vector<MobilizedBody::Ball> bodies;
    MobilizedBody parent = matter.Ground();
    for (int i = 0; i < n; i++) {
        bodies.emplace_back(parent, Transform(Vec3(i ? 1 : 0, 0, 0)), rod, Transform());
        parent = bodies.back();
    }
    State start = system.realizeTopology();
    system.realize(start, Stage::Velocity);

    double best = Infinity;
    Vec3 end(0);
    for (int repeat = 0; repeat < repeats; repeat++) {
        const std::unique_ptr<Integrator> integrator = make_integrator(name, system);
        if (accuracy > 0)
            integrator->setAccuracy(accuracy);
        else
            integrator->setFixedStepSize(step);
        TimeStepper stepper(system, *integrator);
        stepper.initialize(start);
        const double begin = cpu_time();
        stepper.stepTo(t_end);
        best = std::min(best, cpu_time() - begin);
        const State &state = integrator->getState();
        system.realize(state, Stage::Position);
        end = bodies.back().findStationLocationInGround(state, Vec3(1, 0, 0));
    }
    std::printf("%.9g %.17g %.17g %.17g\n", best, end[0], end[1], end[2]);
    return 0;
}
